#include "spank/node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/rundir.h"
#include "common/spec.h"
#include "spank/launch.h"
#include "spank/step.h"

/*
 * Where the keeper comes from. With PrologFlags=Alloc or Contain, and without any when the first
 * step comes to the node, slurmd calls job_prolog, which starts it outside of the job. Where
 * there is no such call (RunInJob), or where it did not work, the root part of the first step
 * does; the keeper's own mkdir of the run directory decides between steps that start at once.
 *
 * Who cleans up. job_epilog is called on all nodes at every end of a job. Only under RunInJob it
 * never is; the exit of the extern step is left then. Elsewhere that exit must not clean: until
 * 24.05 a mere signal from the user ends the extern step in the middle of the job. To tell, the
 * prolog leaves a mark beside the jobs' directories: where SPANK's prolog runs, its epilog does.
 */
#define MARK STAGE_RUN_DIR "/.prolog"

static char start_error[ERROR_MAX_SIZE];
static int slow_keeper = -1; /* pidfd of one that this process has started and that doesn't answer */

const char *node_get_start_error(void)
{
	return start_error;
}

static bool rundir_exists(uint32_t job_id)
{
	char path[PATH_MAX];

	return rundir_path(path, sizeof(path), job_id, NULL) > 0 && access(path, F_OK) == 0;
}

/* --- in slurmd's children ------------------------------------------------------------------ */

static void leave_mark(void)
{
	int fd;

	if (!COMPAT_HAVE_RUN_IN_JOB)
		return;
	fd = open(MARK, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd >= 0)
		close(fd);
}

void node_prolog(spank_t sp, const char *conf_path)
{
	struct launch_job job = { .spec = getenv(SPEC_ENV_PROLOG) };
	const char *restart = getenv("SLURM_JOB_RESTART_COUNT");
	struct error err = ERROR_INIT;

	if (!job.spec)
		return;
	if (spank_get_item(sp, S_JOB_ID, &job.job_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_UID, &job.uid) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_GID, &job.gid) != ESPANK_SUCCESS)
		return;
	job.restart = restart ? (uint32_t)strtoul(restart, NULL, 10) : 0;
	job.node = getenv("SLURMD_NODENAME");
	job.nodelist = getenv("SLURM_JOB_NODELIST");
	job.nodelist = job.nodelist ? job.nodelist : getenv("SLURM_NODELIST");
	job.n_nodes = getenv("SLURM_JOB_NUM_NODES");
	job.partition = getenv("SLURM_JOB_PARTITION");
	if (launch_run(&job, conf_path, &slow_keeper, &err) < 0)
		slurm_error("stage-data: job=%u: %s", (unsigned)job.job_id, err.text);
	node_step_exit(sp); /* no epilog would find it: the first step tries again */
	leave_mark();
}

static void clean(uint32_t job_id, const char *conf_path)
{
	struct error err = ERROR_INIT;

	if (rundir_exists(job_id) && launch_clean(job_id, conf_path, &err) < 0)
		slurm_error("stage-data: job=%u: %s", (unsigned)job_id, err.text);
}

void node_epilog(spank_t sp, const char *conf_path)
{
	uint32_t job_id;

	if (spank_get_item(sp, S_JOB_ID, &job_id) == ESPANK_SUCCESS)
		clean(job_id, conf_path);
}

void node_extern_exit(spank_t sp, const char *conf_path)
{
	uint32_t job_id, step_id;

	if (COMPAT_HAVE_RUN_IN_JOB && spank_get_item(sp, S_JOB_ID, &job_id) == ESPANK_SUCCESS &&
	    spank_get_item(sp, S_JOB_STEPID, &step_id) == ESPANK_SUCCESS &&
	    step_id == SLURM_EXTERN_CONT && access(MARK, F_OK) < 0)
		clean(job_id, conf_path);
}

void node_boot(const char *conf_path)
{
	struct error err = ERROR_INIT;

	(void)unlink(MARK); /* PrologFlags may be other ones now */
	if (access(STAGE_RUN_DIR, F_OK) == 0 && launch_reap(conf_path, &err) < 0)
		slurm_error("stage-data: %s", err.text);
}

/* --- in a step ----------------------------------------------------------------------------- */

/* SLURMD_NODENAME is that of the node the step was started from until its tasks are made. */
static void get_node_name(char *buf, size_t size)
{
	buf[0] = '\0';
	(void)gethostname(buf, size);
	buf[size - 1] = '\0';
	buf[strcspn(buf, ".")] = '\0';
}

void node_step_start(spank_t sp, const char *conf_path)
{
	_cleanup_(freep) char *nodelist = NULL, *n_nodes = NULL, *partition = NULL;
	_cleanup_(step_freep) struct step *step = NULL;
	struct error err = ERROR_INIT;
	char node[HOST_NAME_MAX + 1];
	struct launch_job job;
	int r;

	if (step_new(&step, sp) < 0 || !step->spec || step->step_id == SLURM_EXTERN_CONT)
		return;
	if (step_has_file(step, RUNDIR_SOCK) || step_has_file(step, RUNDIR_FAILED))
		return;
	get_node_name(node, sizeof(node));
	nodelist = step_get_env(sp, "SLURM_JOB_NODELIST");
	n_nodes = step_get_env(sp, "SLURM_JOB_NUM_NODES");
	partition = step_get_env(sp, "SLURM_JOB_PARTITION");
	job = (struct launch_job){
		.job_id = step->job_id, .restart = step->restart, .uid = step->uid,
		.gid = step->gid, .in_step = true, .spec = step->spec, .node = node,
		.nodelist = nodelist, .n_nodes = n_nodes, .partition = partition,
	};
	r = launch_run(&job, conf_path, &slow_keeper, &err);
	if (r < 0)
		slurm_error("stage-data: job=%u: %s", (unsigned)job.job_id, err.text);
	if (r < 0 && r != -ETIMEDOUT)
		snprintf(start_error, sizeof(start_error), "%s", err.text);
}

void node_step_exit(spank_t sp)
{
	uint32_t job_id;

	/* With a run directory it has left the job's cgroups, and the clean-up will find it. */
	if (slow_keeper >= 0 && spank_get_item(sp, S_JOB_ID, &job_id) == ESPANK_SUCCESS &&
	    !rundir_exists(job_id))
		(void)fd_pidfd_kill(slow_keeper, SIGKILL);
	fd_closep(&slow_keeper);
}
