/*
 * plugin-task: the plugin's name and version for Slurm, and the hooks that Slurm calls as the job's
 * user.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/cleanup.h"
#include "spank/slurm-compat.h"
#include "spank/step-env.h"
#include "spank/step.h"
#include "spank/wait-ready.h"

SPANK_PLUGIN(stage_data, 1)

/* Required by ParaStation's psid, which replaces slurmd on some machines. */
extern const char psid_plugin[];
const char psid_plugin[] = "yes";

#if COMPAT_HAVE_INIT_FAILURE_MODE
extern int slurm_spank_init_failure_mode;
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

static bool is_in_data(spank_t sp, const char *dir)
{
	char data[PATH_MAX];
	uint32_t job_id;
	int n;

	if (spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
		return false;
	n = rundir_path(data, sizeof(data), job_id, RUNDIR_DATA "/");
	return n > 0 && !strncmp(dir, data, (size_t)n);
}

/* Enters the directory from which srun was called, if it is in the job's data. slurmstepd has tried
 * this with root's real uid, which FUSE refuses for a mounted dataset, so slurmstepd has used
 * /tmp. */
static void enter_work_dir(spank_t sp)
{
	_cleanup_(freep) char *dir = step_get_env(sp, "PWD"), *rank = NULL;
	char now[PATH_MAX];

	if (!dir || !is_in_data(sp, dir) || (getcwd(now, sizeof(now)) && !strcmp(now, dir)) ||
	    chdir(dir) < 0)
		return;
	rank = step_get_env(sp, "SLURM_PROCID");
	if (rank && !strcmp(rank, "0"))
		dprintf(STDERR_FILENO,
			"stage-data: the tasks begin in %s, although slurmstepd could not enter "
			"it\n",
			dir);
}

int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
	if (spank_context() == S_CTX_REMOTE)
		step_env_set(sp);
	return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	if (spank_context() != S_CTX_REMOTE)
		return 0;
	wait_ready_task(sp);
	enter_work_dir(sp);
	return 0;
}
