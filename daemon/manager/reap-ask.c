#include <errno.h>
#include <stdio.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "daemon/manager/reap-internal.h"

/* Limits for the total time of the questions, so that the run ends within the timer's time. */
#define ASK_USER_MS 10000 /* about one user's jobs: the user can stop and kill squeue */
#define IN_VAIN_MS 30000  /* without an answer: then Slurm does not answer at all */
#define ASK_ALL_MS 45000  /* all questions */

static struct state record; /* record of the job that is asked about */

static bool is_asked(const struct left *l)
{
	return l->fate == FATE_ASK || l->fate == FATE_ASK_ENDS;
}

/* Returns true if the time limit of the job's user, or that for questions without an answer, is
 * used up. Each user has his own limit, so a user with many jobs delays only these. */
static bool is_in_vain(const struct reap *reap, const struct left *l)
{
	uint64_t ms = 0;

	for (const struct left *other = reap->left; other < reap->left + reap->n_left; other++)
		if (other->uid == l->uid)
			ms += other->asked_ms;
	return ms >= ASK_USER_MS || reap->in_vain_ms >= IN_VAIN_MS;
}

static enum joblife ask_slurm(struct reap *reap, struct left *l)
{
	const uint64_t begin_ms = clock_ms();
	enum joblife life;

	if (is_in_vain(reap, l)) {
		snprintf(l->why, sizeof(l->why), "Slurm did not answer in time before");
		return JOBLIFE_UNKNOWN;
	}
	if (begin_ms >= reap->ask_until_ms) {
		snprintf(l->why, sizeof(l->why),
			 "Slurm answers slowly; the next run asks about this job");
		return JOBLIFE_UNKNOWN;
	}
	leftover_begin_turn(&l->id, &l->marks);
	life = joblife_ask(&record, l->why);
	l->asked_ms = clock_ms() - begin_ms;
	if (life == JOBLIFE_UNKNOWN)
		reap->in_vain_ms += l->asked_ms;
	return life;
}

static void ask_one(struct reap *reap, struct left *l)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	enum joblife life;
	int r = jobdir_open(&d, &l->id, NULL);

	l->over = false;
	if (r != 0) {
		l->fate = r < 0 ? reap_pass_over(reap, l, r, "its directory can't be opened")
				: FATE_DONE;
		return;
	}
	if (jobdir_read_state(&d, &record) < 0)
		jobdir_find_owner(&d, &record);
	record.job_id = l->id.job_id;
	life = ask_slurm(reap, l);
	l->over = life == JOBLIFE_OVER;
	reap_report_kept(l, life);
	if (!l->over)
		l->fate = FATE_DONE;
}

size_t reap_ask_all(struct reap *reap)
{
	size_t n_over = 0;

	reap->in_vain_ms = 0;
	reap->ask_until_ms = clock_ms() + ASK_ALL_MS;
	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++)
		l->asked_ms = 0;
	for (struct left *l = reap->left; l < reap->left + reap->n_left; l++) {
		if (is_asked(l))
			ask_one(reap, l);
		n_over += is_asked(l) && l->over;
	}
	return n_over;
}
