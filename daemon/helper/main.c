/*
 * stage-hand: what root need not do. As stage-steward it runs as the system user, and decides what stage-keeper
 * does (daemon/manager/, common/protocol/keeper-acts.h); else it does one chore (common/protocol/keeper-hand.h).
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/protocol/keeper-hand.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "daemon/helper/hand.h"
#include "daemon/manager/steward.h"

#include "stage-build.h"

/* clang-format off */
static const struct {
	const char *name;
	int n_args;
	int (*fn)(char **argv);            /* its result is the answer */
	void (*answering)(char **argv);    /* it writes one itself, if there is any */
} chores[] = {
	{ "site",       1, .answering = hand_site },
	{ "path",       6, .answering = hand_path },
	{ "account",    2, .answering = hand_account },
	{ "metrics",    0, .answering = hand_metrics },
	{ "release",    0, hand_release },
	{ "empty",      1, hand_empty },
	{ "tier-make",  4, hand_tier_make },
	{ "tier-aside", 4, hand_tier_aside },
	{ "tier-empty", 4, hand_tier_empty },
	{ "over",       3, .answering = hand_over },
};
/* clang-format on */

static int usage(void)
{
	dprintf(STDERR_FILENO, "stage-hand is started by stage-keeper, without privileges\n");
	return 2;
}

int main(int argc, char **argv)
{
	int32_t r;

	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("stage-hand " STAGE_VERSION) < 0;
	prctl(PR_SET_NAME, "stage-hand"); /* execveat() by a descriptor names it by a number */
	prctl(PR_SET_DUMPABLE, 0);
	if (argc < 1 || geteuid() == 0)
		return usage();
	if (strcmp(argv[0], "stage-steward") == 0)
		return steward_main(argc, argv);
	if (argc < 2)
		return usage();
	for (size_t i = 0; i < ARRAY_SIZE(chores); i++) {
		if (strcmp(argv[1], chores[i].name) != 0 || argc - 2 != chores[i].n_args)
			continue;
		if (chores[i].answering) {
			chores[i].answering(argv + 2);
			return 0;
		}
		r = chores[i].fn(argv + 2);
		return fd_write_all(HAND_FD_ANSWER, &r, sizeof(r)) < 0;
	}
	return usage();
}
