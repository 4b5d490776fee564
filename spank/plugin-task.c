/*
 * plugin-task: the plugin's name and version for Slurm, and the hooks that Slurm calls as the job's
 * user.
 */
#include "spank/wait-ready.h"
#include "spank/slurm-compat.h"
#include "spank/step-env.h"
#include "spank/work-dir.h"

SPANK_PLUGIN(stage_data, 1)

/* Required by ParaStation's psid, which replaces slurmd on some machines. */
extern const char psid_plugin[];
const char psid_plugin[] = "yes";

#if COMPAT_HAVE_INIT_FAILURE_MODE
extern int slurm_spank_init_failure_mode;
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

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
	work_dir_enter(sp);
	return 0;
}
