/*
 * This file parses stage-keeper's command line, which the keeper passes on without reading it.
 */
#include "daemon/manager/manager.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "daemon/manager/clean.h"
#include "daemon/manager/reap.h"

#define EXIT_USAGE 2
#define CLEAN_TIMEOUT_MS 10000

enum {
	JOB,
	UID,
	GID,
	RESTART,
	TIMEOUT,
	N_NUMBERS,
	CONF = N_NUMBERS /* only the keeper uses it */,
	NODE,
	STEP,
	TIMER,
	SLUID
};

struct args {
	uint32_t numbers[N_NUMBERS];
	uint32_t given; /* bit n: option n of the enum was given */
	const char *node, *sluid;
};

static int read_args(struct args *a, int argc, char **argv)
{
	static const struct option options[] = {
		{ "job", required_argument, NULL, JOB },
		{ "uid", required_argument, NULL, UID },
		{ "gid", required_argument, NULL, GID },
		{ "restart", required_argument, NULL, RESTART },
		{ "timeout", required_argument, NULL, TIMEOUT },
		{ "conf", required_argument, NULL, CONF },
		{ "node", required_argument, NULL, NODE },
		{ "sluid", required_argument, NULL, SLUID },
		{ "step", no_argument, NULL, STEP },
		{ "timer", no_argument, NULL, TIMER },
		{ 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == '?' || (c < N_NUMBERS && parse_uint32(optarg, &a->numbers[c]) < 0))
			return -EINVAL;
		if (c == NODE)
			a->node = optarg;
		if (c == SLUID)
			a->sluid = optarg;
		a->given |= 1U << c;
	}
	return optind == argc ? 0 : -EINVAL;
}

/* The name becomes a part of a path, so it may contain no dots and slashes. */
static bool is_name(const char *s)
{
	return *s &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] ==
		       '\0';
}

static int cmd_run(const struct args *a)
{
	static struct manager k = {
		.spec_fd = MANAGER_FD_SPEC, .dir = JOBDIR_INIT, .listen_fd = -1, .log_r = -1
	};

	k.st.job_id = a->numbers[JOB];
	k.st.restart = a->numbers[RESTART];
	k.st.uid = a->numbers[UID];
	k.st.gid = a->numbers[GID];
	k.in_step = a->given & 1U << STEP;
	k.node = a->node && is_name(a->node) ? a->node : NULL;
	/* In a step, this is the host's name and not Slurm's NodeName. */
	if (k.node && !k.in_step)
		snprintf(k.st.node, sizeof(k.st.node), "%s", k.node);
	if (a->sluid && sluid_is_valid(a->sluid))
		strcpy(k.st.sluid, a->sluid);
	return manager_run(&k);
}

static int report(int r, const struct error *err)
{
	if (r >= 0)
		return EXIT_SUCCESS;
	if (*err->text) { /* otherwise the reason is in the log already */
		log_error("%s", err->text);
		fprintf(stderr, "stage-keeper: %s\n", err->text);
	}
	return EXIT_FAILURE;
}

static int cmd_clean(const struct args *a)
{
	const struct clean_options o = { .end_keeper = true,
					 .timeout_ms = a->numbers[TIMEOUT] ?: CLEAN_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	struct jobdir_id id = { .job_id = a->numbers[JOB] };
	_cleanup_(fd_closep) int base = -1;
	int r;

	log_open("stage-keeper", -1, 1);
	log_set_job(id.job_id);
	r = base = jobdir_open_base(false, &err);
	if (r >= 0)
		r = clean_job(&id, &o, &err);
	return report(r, &err);
}

static int cmd_reap(const struct args *a)
{
	struct error err = ERROR_INIT;

	log_open("stage-keeper", -1, 1);
	return report(reap_all(a->given & 1U << TIMER, &err), &err);
}

/* clang-format off */
static const struct {
	const char *name;
	int (*fn)(const struct args *a);
	uint32_t needs;
} commands[] = {
	{ "run",   cmd_run,   1U << JOB | 1U << UID | 1U << GID },
	{ "clean", cmd_clean, 1U << JOB },
	{ "reap",  cmd_reap,  0 },
};
/* clang-format on */

int manager_main(int argc, char **argv)
{
	struct args a = { 0 };
	size_t i = 0;

	prctl(PR_SET_NAME, "stage-manager");
	manager_confine();
	signal(SIGPIPE, SIG_IGN); /* the plugin, or the reader of the log, may be gone */
	for (int fd = MANAGER_FD_KEEPER; fd <= MANAGER_FD_SPEC; fd++)
		(void)fd_set_cloexec(fd, true);
	while (argc > 1 && i < ARRAY_SIZE(commands) && strcmp(argv[1], commands[i].name))
		i++;
	if (argc < 2 || i == ARRAY_SIZE(commands) || read_args(&a, argc - 1, argv + 1) < 0 ||
	    (a.given & commands[i].needs) != commands[i].needs) {
		fputs("usage: stage-keeper run --job N --uid U --gid G [--restart R] [--sluid S] "
		      "[--step]\n"
		      "       stage-keeper clean --job N [--timeout MS]\n"
		      "       stage-keeper reap [--timer] | --version\n"
		      "       each: [--conf FILE] [--node NAME]\n",
		      stderr);
		return EXIT_USAGE;
	}
	return commands[i].fn(&a);
}
