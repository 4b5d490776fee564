/*
 * stage-helper: work that does not need root. Under the name stage-manager it runs as the system
 * user and decides what stage-keeper does (daemon/manager/, common/protocol/keeper-privops.h).
 * Otherwise it does one task (common/protocol/keeper-helper.h) and ends.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/protocol/keeper-helper.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "daemon/helper/helper.h"
#include "daemon/manager/manager.h"

#include "stage-build.h"

/* clang-format off */
static const struct {
	const char *name;
	int n_args;
	int (*fn)(char **argv);            /* returns the answer */
	void (*answering)(char **argv);    /* writes its answer itself, if it has one */
} tasks[] = {
	{ "site",       1, .answering = helper_site },
	{ "path",       6, .answering = helper_path },
	{ "account",    2, .answering = helper_user },
	{ "metrics",    0, .answering = helper_metrics },
	{ "release",    0, helper_release },
	{ "empty",      1, helper_empty },
	{ "tier-make",  4, helper_tier_make },
	{ "tier-aside", 4, helper_tier_aside },
	{ "tier-empty", 4, helper_tier_empty },
	{ "over",       3, .answering = helper_over },
};
/* clang-format on */

static int usage(void)
{
	dprintf(STDERR_FILENO, "stage-helper is started by stage-keeper, without privileges\n");
	return 2;
}

int main(int argc, char **argv)
{
	int32_t r;

	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("stage-helper " STAGE_VERSION) < 0;
	prctl(PR_SET_NAME, "stage-helper"); /* after execveat(), the name is the number of a
					     * descriptor */
	prctl(PR_SET_DUMPABLE, 0);
	if (argc < 1 || geteuid() == 0)
		return usage();
	if (strcmp(argv[0], "stage-manager") == 0)
		return manager_main(argc, argv);
	if (argc < 2)
		return usage();
	for (size_t i = 0; i < ARRAY_SIZE(tasks); i++) {
		if (strcmp(argv[1], tasks[i].name) != 0 || argc - 2 != tasks[i].n_args)
			continue;
		if (tasks[i].answering) {
			tasks[i].answering(argv + 2);
			return 0;
		}
		r = tasks[i].fn(argv + 2);
		return fd_write_all(HELPER_FD_ANSWER, &r, sizeof(r)) < 0;
	}
	return usage();
}
