/*
 * Finds keepers that still run although their job is over, because no epilog has ended them: slurmd
 * had not loaded the plugin when the job ended. One request to Slurm covers all jobs that have no
 * process on the node.
 */
#include "client/doctor.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/capture.h"
#include "common/util/cleanup.h"
#include "stage-build.h"

#define SQUEUE_MS 10000
#define AGAIN_US 2000000

struct job_list {
	uint32_t ids[DOCTOR_MAX_JOBS];
	size_t n;
};

/* Returns whether a job has ended. A job that is completing (CG) is not included, because its
 * epilog has not run yet. */
static bool is_final(const char *state)
{
	static const char *const states[] = { "CD", "CA", "F",	"TO",  "NF",
					      "PR", "BF", "DL", "OOM", "RV" };

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (strcmp(state, states[i]) == 0)
			return true;
	return false;
}

static bool lives_in(const char *text, uint32_t job_id)
{
	char state[16];
	unsigned id;
	int n;

	for (; sscanf(text, "%u %15s%n", &id, state, &n) == 2; text += n)
		if (id == job_id && !is_final(state))
			return true;
	return false;
}

/* Removes the jobs that are alive according to Slurm. Returns false if Slurm does not answer. */
static bool drop_living(struct job_list *l)
{
	char list[DOCTOR_MAX_JOBS * 12 + 24];
	const char *const argv[] = { "squeue", "-h", "-t", "all", "-o", "%A %t", "-j", list, NULL };
	_cleanup_(freep) char *text = NULL;
	size_t n = 0, n_over = 0;

	if (l->n == 0)
		return true;
	/* For a single unknown job, squeue would report an error, so the first job is named
	 * twice. */
	n = (size_t)snprintf(list, sizeof(list), "%u", l->ids[0]);
	for (size_t i = 0; i < l->n; i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, ",%u", l->ids[i]);
	if (capture_slurm(argv, SQUEUE_MS, &text) != 0)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (!lives_in(text, l->ids[i]))
			l->ids[n_over++] = l->ids[i];
	l->n = n_over;
	return true;
}

unsigned doctor_check_keepers(struct doctor *d, const uint32_t *ids, size_t n,
			      bool (*is_kept)(uint32_t job_id))
{
	struct job_list l = { .n = n < DOCTOR_MAX_JOBS ? n : DOCTOR_MAX_JOBS };
	unsigned n_over = 0;

	memcpy(l.ids, ids, l.n * sizeof(*ids));
	if (!drop_living(&l)) {
		doctor_tell(d, DOCTOR_WARN, "ask again where the controller can be reached",
			    "squeue does not tell whether %zu job%s with a keeper run%s", n,
			    n == 1 ? "" : "s", n == 1 ? "s" : "");
		return 1;
	}
	if (l.n == 0)
		return 0;
	usleep(AGAIN_US); /* a job that has just ended is being cleaned up */
	if (!drop_living(&l))
		return 0;
	for (size_t i = 0; i < l.n; i++) {
		if (!is_kept(l.ids[i]))
			continue;
		n_over++;
		doctor_tell(d, DOCTOR_WARN,
			    "run '" STAGE_LIBEXEC_DIR
			    "/stage-keeper reap' as root, or wait for the timer; look whether "
			    "slurmd has loaded the plugin",
			    "job %u is over, and nobody has ended its keeper", l.ids[i]);
	}
	return n_over;
}
