#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "daemon/manager/reap-internal.h"

static unsigned n_failures; /* number of failures, logged or not */

void reap_say(const struct left *l, const char *text, const char *why)
{
	fprintf(stderr, "job %u: %s%s%s\n", l->id.job_id, text, why ? ": " : "", why ?: "");
}

bool reap_report_failure(struct left *l)
{
	n_failures++;
	if (l->is_quiet)
		return false;
	leftover_note_told(&l->id, &l->marks);
	log_set_job(l->id.job_id);
	log_error("%s", l->why);
	log_set_job(0);
	return true;
}

/* A job whose slurmd was killed stays in the state "completing" until slurmd runs again, even if
 * its processes ended long ago. */
void reap_report_running(const struct left *l, bool has_process)
{
	if (has_process)
		reap_say(l,
			 "its keeper is dead, and processes of it are on this node: its data stays "
			 "until its end",
			 NULL);
	else if (*l->why)
		reap_say(l,
			 "its keeper is dead, and it is completing: its data stays until its "
			 "epilog, "
			 "which runs when slurmd is back",
			 l->why);
	else
		reap_say(l, "its keeper is dead, and it runs: its data stays until its end", NULL);
}

void reap_report_kept(struct left *l, enum joblife life)
{
	if (life == JOBLIFE_RUNS && l->has_record && l->fate == FATE_ASK)
		reap_report_running(l, false);
	if (life != JOBLIFE_UNKNOWN)
		return;
	if (!l->is_quiet) {
		leftover_note_told(&l->id, &l->marks);
		log_set_job(l->id.job_id);
		log_warning("it is not known whether the job runs, so its data stays: %s", l->why);
		log_set_job(0);
	}
	reap_say(l, "it is not known whether it runs, so its data stays", l->why);
}

unsigned reap_get_n_failures(void)
{
	return n_failures;
}

enum fate reap_pass_over(struct reap *reap, struct left *l, int r, const char *what)
{
	snprintf(l->why, sizeof(l->why), "%s: %s", what, strerror(-r));
	reap->has_told |= reap_report_failure(l);
	reap->r = r;
	return FATE_DONE;
}
