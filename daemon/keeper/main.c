/*
 * stage-keeper: the privileged half, one a job and node. It does nothing on the node that the job's
 * user could not do, except: mount a FUSE or tmpfs file system, nosuid and nodev, in a directory of
 * root's, visible to that user alone; and take away what it made.
 *
 * It parses integers and its own record; nothing of the user's.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/number.h"
#include "daemon/keeper/clean.h"
#include "daemon/keeper/jobdir.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/reap.h"

#include "stage-build.h"

#define EXIT_USAGE 2
#define CLEAN_TIMEOUT_MS 10000

enum { JOB, UID, GID, RESTART, TIMEOUT, N_NUMBERS, CONF = N_NUMBERS, NODE, STEP };

struct args {
	uint32_t numbers[N_NUMBERS];
	uint32_t given; /* bits of the enum */
	const char *conf, *node;
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
		{ "step", no_argument, NULL, STEP },
		{ 0 },
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == '?' || (c < N_NUMBERS && parse_uint32(optarg, &a->numbers[c]) < 0))
			return -EINVAL;
		if (c == CONF)
			a->conf = optarg;
		if (c == NODE)
			a->node = optarg;
		a->given |= 1U << c;
	}
	return optind == argc ? 0 : -EINVAL;
}

/* Goes into a path: no dots, no slashes. */
static bool is_name(const char *s)
{
	return *s &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] ==
		       '\0';
}

static int cmd_run(const struct args *a)
{
	static struct keeper k = { .spec_fd = -1, .status_fd = -1, .dir = JOBDIR_INIT, .daemon_fd = -1,
				   .worker_fd = -1, .listen_fd = -1, .log_fd = -1 };

	k.st.job_id = a->numbers[JOB];
	k.st.restart = a->numbers[RESTART];
	k.st.uid = a->numbers[UID];
	k.st.gid = a->numbers[GID];
	k.in_step = a->given & 1U << STEP;
	k.conf_path = a->conf;
	k.node = a->node && is_name(a->node) ? a->node : NULL;
	return keeper_run(&k);
}

static int report(int r, const struct error *err)
{
	if (r >= 0)
		return EXIT_SUCCESS;
	log_error("%s", err->text);
	fprintf(stderr, "stage-keeper: %s\n", err->text);
	return EXIT_FAILURE;
}

static int cmd_clean(const struct args *a)
{
	const struct clean_options o = { true, a->numbers[TIMEOUT] ?: CLEAN_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	_cleanup_(fd_closep) int base = -1;
	char name[16];
	int r;

	log_open("stage-keeper", -1, 1);
	log_set_job(a->numbers[JOB]);
	snprintf(name, sizeof(name), "%u", a->numbers[JOB]);
	r = base = jobdir_open_base(NULL, &err);
	if (r >= 0)
		r = clean_job(base, name, &o, &err);
	return report(r, &err);
}

static int cmd_reap(const struct args *a)
{
	struct error err = ERROR_INIT;

	log_open("stage-keeper", -1, 1);
	return report(reap_all(a->conf, &err), &err);
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

int main(int argc, char **argv)
{
	struct args a = { 0 };
	size_t i = 0;

	prctl(PR_SET_DUMPABLE, 0);
	clearenv();
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	umask(022);
	launch_reset_signals();
	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("stage-keeper " STAGE_VERSION) < 0;
	while (argc > 1 && i < ARRAY_SIZE(commands) && strcmp(argv[1], commands[i].name))
		i++;
	if (argc < 2 || i == ARRAY_SIZE(commands) || read_args(&a, argc - 1, argv + 1) < 0 ||
	    (a.given & commands[i].needs) != commands[i].needs) {
		fputs("usage: stage-keeper run --job N --uid U --gid G [--restart R] [--step]\n"
		      "       stage-keeper clean --job N [--timeout MS]\n"
		      "       stage-keeper reap | --version\n"
		      "       each: [--conf FILE] [--node NAME]\n",
		      stderr);
		return EXIT_USAGE;
	}
	if (geteuid() != 0) {
		fputs("stage-keeper: must be run by root\n", stderr);
		return EXIT_FAILURE;
	}
	return commands[i].fn(&a);
}
