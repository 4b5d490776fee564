#include "spank/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/config/spec.h"
#include "common/protocol/rundir.h"
#include "common/protocol/sluid.h"
#include "common/util/cleanup.h"
#include "spank/keeper-call.h"
#include "spank/step.h"

/*
 * Start of the keeper. slurmd calls job_prolog, which starts the keeper outside of the job: with
 * PrologFlags=Alloc or Contain at the start of the job, otherwise when the job's first step comes
 * to the node. If there is no such call (RunInJob), or if it failed, the root part of the first
 * step starts it. If several steps begin at once, the keeper's mkdir of the run directory decides
 * between them.
 *
 * Clean-up. job_epilog is called on all nodes at each end of a job, except under RunInJob.
 * Only then, the exit of the extern step cleans up. In all other cases it must not: until 24.05, a
 * signal from the user can end the extern step in the middle of the job. To distinguish these
 * cases, the prolog makes the file MARK: if SPANK's prolog is called, its epilog is, too.
 */
#define MARK STAGE_RUN_DIR "/.prolog"

static char start_error[KEEPER_CALL_WHY_SIZE];

const char *node_get_start_error(void)
{
	return start_error;
}

/* Returns whether the job's run directory contains name. name NULL: whether the directory
 * exists. */
static bool rundir_has(uint32_t job_id, const char *name)
{
	char path[PATH_MAX];

	return rundir_path(path, sizeof(path), job_id, name) > 0 && access(path, F_OK) == 0;
}

/* Checks the socket's owner, because the job id may have been used before by another user's job
 * whose directory still exists. */
static bool is_started(const struct keeper_call_job *job)
{
	char path[PATH_MAX];
	struct stat st;

	return rundir_path(path, sizeof(path), job->job_id, RUNDIR_SOCK) > 0 &&
	       lstat(path, &st) == 0 && st.st_uid == job->uid;
}

static bool get_job(spank_t sp, struct keeper_call_job *job)
{
	return spank_get_item(sp, S_JOB_ID, &job->job_id) == ESPANK_SUCCESS &&
	       spank_get_item(sp, S_JOB_UID, &job->uid) == ESPANK_SUCCESS &&
	       spank_get_item(sp, S_JOB_GID, &job->gid) == ESPANK_SUCCESS;
}

/* Starts the keeper. Returns 0, or -errno after an error message. why: KEEPER_CALL_WHY_SIZE
 * bytes. */
static int start(const struct keeper_call_job *job, const char *conf_path, char *why)
{
	int r = keeper_call_run(job, conf_path, why);

	if (r < 0)
		slurm_error("stage-data: job=%u: %s", (unsigned)job->job_id, why);
	return r;
}

/* --- in slurmd's children ------------------------------------------------------------------ */

void node_prolog(spank_t sp, const char *conf_path)
{
	const char *restart = getenv("SLURM_JOB_RESTART_COUNT"),
		   *nodelist = getenv("SLURM_JOB_NODELIST");
	struct keeper_call_job job = {
		.spec = getenv(SPEC_ENV_PROLOG),
		.node = getenv("SLURMD_NODENAME"),
		.nodelist = nodelist ? nodelist : getenv("SLURM_NODELIST"),
		.n_nodes = getenv("SLURM_JOB_NUM_NODES"),
		.partition = getenv("SLURM_JOB_PARTITION"),
		.sluid = getenv("SLURM_JOB_SLUID"),
		.restart = restart ? (uint32_t)strtoul(restart, NULL, 10) : 0,
	};
	char why[KEEPER_CALL_WHY_SIZE] = "";

	if (!job.spec || !get_job(sp, &job))
		return;
	(void)start(&job, conf_path, why);
	if (COMPAT_HAVE_RUN_IN_JOB)
		close(open(MARK, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
}

void node_epilog(spank_t sp, const char *conf_path)
{
	char why[KEEPER_CALL_WHY_SIZE] = "";
	uint32_t job_id;

	if (spank_get_item(sp, S_JOB_ID, &job_id) == ESPANK_SUCCESS && rundir_has(job_id, NULL) &&
	    keeper_call_clean(job_id, conf_path, why) < 0)
		slurm_error("stage-data: job=%u: %s", (unsigned)job_id, why);
}

void node_extern_exit(spank_t sp, const char *conf_path)
{
	uint32_t step_id;

	if (COMPAT_HAVE_RUN_IN_JOB &&
	    spank_get_item(sp, S_JOB_STEPID, &step_id) == ESPANK_SUCCESS &&
	    step_id == SLURM_EXTERN_CONT && access(MARK, F_OK) < 0)
		node_epilog(sp, conf_path);
}

void node_boot(const char *conf_path)
{
	char why[KEEPER_CALL_WHY_SIZE] = "";

	(void)unlink(MARK); /* PrologFlags may have changed */
	if (access(STAGE_RUN_DIR, F_OK) == 0 && keeper_call_clean(0, conf_path, why) < 0)
		slurm_error("stage-data: %s", why);
}

/* --- in a step ----------------------------------------------------------------------------- */

void node_step_start(spank_t sp, const char *conf_path)
{
	_cleanup_(freep) char *spec = step_get_env(sp, SPEC_ENV_JOB);
	_cleanup_(freep) char *nodelist = NULL, *n_nodes = NULL, *partition = NULL;
	struct keeper_call_job job = { .in_step = true, .spec = spec };
	char why[KEEPER_CALL_WHY_SIZE] = "", node[HOST_NAME_MAX + 1] = "", sluid[SLUID_SIZE];
	uint32_t step_id;

	if (!spec || !get_job(sp, &job) ||
	    spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS ||
	    step_id == SLURM_EXTERN_CONT || step_is_of_later_component(sp, job.job_id) ||
	    is_started(&job) || rundir_has(job.job_id, RUNDIR_FAILED))
		return;
	(void)spank_get_item(sp, S_SLURM_RESTART_COUNT, &job.restart);
	/* Until its tasks are made, a step's SLURMD_NODENAME is the name of the node that started
	 * it. */
	(void)gethostname(node, sizeof(node) - 1);
	node[strcspn(node, ".")] = '\0';
	job.node = node;
	job.sluid = sluid_read_own(sluid); /* here, the user may have set the variable */
	job.nodelist = nodelist = step_get_env(sp, "SLURM_JOB_NODELIST");
	job.n_nodes = n_nodes = step_get_env(sp, "SLURM_JOB_NUM_NODES");
	job.partition = partition = step_get_env(sp, "SLURM_JOB_PARTITION");
	if (start(&job, conf_path, why) != -ETIMEDOUT)
		snprintf(start_error, sizeof(start_error), "%s", why);
}
