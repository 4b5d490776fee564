/*
 * plugin: the hooks that Slurm calls as root, or in sbatch. Each of them calls a function of
 * another file.
 *
 * In plugstack.conf: optional stage_data.so [conf=FILE]. node.c, submit.c and wait-ready.c describe
 * where each hook runs, as which user, and why. All hooks return 0, because a user's mistake must
 * never look like a broken node.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "spank/node.h"
#include "spank/options.h"
#include "spank/slurm-compat.h"
#include "spank/submit.h"

static const char *get_conf_path(int ac, char **av)
{
	for (int i = 0; i < ac; i++)
		if (!strncmp(av[i], "conf=", 5) && av[i][5])
			return av[i] + 5;
	return NULL;
}

static bool is_submitting(void)
{
	return spank_context() == S_CTX_LOCAL || spank_context() == S_CTX_ALLOCATOR;
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	if (is_submitting())
		submit_init();
	if (is_submitting() || spank_context() == S_CTX_REMOTE)
		options_register(sp);
	if (spank_context() == S_CTX_SLURMD && geteuid() == 0)
		node_boot(get_conf_path(ac, av));
	return 0;
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	if (is_submitting())
		submit_post_opt(sp, get_conf_path(ac, av));
	if (spank_context() == S_CTX_REMOTE && geteuid() == 0)
		node_step_start(sp, get_conf_path(ac, av));
	return 0;
}

int slurm_spank_job_prolog(spank_t sp, int ac, char **av)
{
	node_prolog(sp, get_conf_path(ac, av));
	return 0;
}

int slurm_spank_job_epilog(spank_t sp, int ac, char **av)
{
	node_epilog(sp, get_conf_path(ac, av));
	return 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	/* geteuid() may be the job's user for a moment (keeper-call.c). */
	if (spank_context() == S_CTX_REMOTE && getuid() == 0)
		node_extern_exit(sp, get_conf_path(ac, av));
	return 0;
}
