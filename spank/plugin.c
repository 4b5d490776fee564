/*
 * plugin: the hooks that Slurm calls, each of which says who it is and hands on.
 *
 * In plugstack.conf: optional stage_data.so [conf=FILE]. Where a hook runs and as whom, and why
 * everything stands where it does, is in node.c, submit.c and hold.c. All hooks return 0: what a
 * user does wrong must never look like a broken node.
 */
#include <string.h>
#include <unistd.h>

#include "spank/hold.h"
#include "spank/node.h"
#include "spank/options.h"
#include "spank/slurm-compat.h"
#include "spank/step-env.h"
#include "spank/submit.h"

SPANK_PLUGIN(stage_data, 1)

/* ParaStation's psid, which takes slurmd's place on some machines, asks for this. */
extern const char psid_plugin[];
const char psid_plugin[] = "yes";

#if COMPAT_HAVE_INIT_FAILURE_MODE
extern int slurm_spank_init_failure_mode;
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

static const char *get_conf_path(int ac, char **av)
{
	for (int i = 0; i < ac; i++)
		if (!strncmp(av[i], "conf=", 5) && av[i][5])
			return av[i] + 5;
	return NULL;
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		submit_init();
		options_register(sp);
		break;
	case S_CTX_REMOTE:
		options_register(sp);
		break;
	case S_CTX_SLURMD:
		if (geteuid() == 0)
			node_boot(get_conf_path(ac, av));
		break;
	default:
		break;
	}
	return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	switch (spank_context()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
		submit_post_opt(sp, get_conf_path(ac, av));
		break;
	case S_CTX_REMOTE:
		if (geteuid() == 0)
			node_step_start(sp, get_conf_path(ac, av));
		break;
	default:
		break;
	}
	return 0;
}

int slurm_spank_job_prolog(spank_t sp, int ac, char **av)
{
	node_prolog(sp, get_conf_path(ac, av));
	return 0;
}

int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
	if (spank_context() == S_CTX_REMOTE)
		step_env_set(sp);
	return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	if (spank_context() == S_CTX_REMOTE)
		hold_task(sp);
	return 0;
}

int slurm_spank_job_epilog(spank_t sp, int ac, char **av)
{
	node_epilog(sp, get_conf_path(ac, av));
	return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	/* Not geteuid(): it may be the job's user's for a moment (launch.c). */
	if (spank_context() == S_CTX_REMOTE && getuid() == 0) {
		node_step_exit(sp);
		node_extern_exit(sp, get_conf_path(ac, av));
	}
	return 0;
}
