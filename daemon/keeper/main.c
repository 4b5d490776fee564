/*
 * stage-keeper: the privileged half, one a job and node. It does nothing on the node that the job's
 * user could not do, except: mount a FUSE or tmpfs file system, nosuid and nodev, in a directory of
 * root's, visible to that user alone; and take away what it made.
 *
 * It parses integers, its own record and the site's configuration; nothing of the user's.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/parse.h"
#include "daemon/keeper/clean.h"
#include "daemon/keeper/jobdir.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/reap.h"

#include "stage-build.h"

#define EXIT_USAGE 2
#define CLEAN_TIMEOUT_MS 10000

struct args {
	uint32_t job, uid, gid, restart, timeout_ms;
	const char *conf, *node;
	uint32_t given; /* bits of the table below */
	bool step;
};

enum arg_type { ARG_NUMBER, ARG_TEXT, ARG_FLAG };

/* clang-format off */
static const struct {
	const char *name;
	enum arg_type type;
	size_t offset;
} arg_table[] = {
	{ "--job",     ARG_NUMBER, offsetof(struct args, job) },
	{ "--uid",     ARG_NUMBER, offsetof(struct args, uid) },
	{ "--gid",     ARG_NUMBER, offsetof(struct args, gid) },
	{ "--restart", ARG_NUMBER, offsetof(struct args, restart) },
	{ "--timeout", ARG_NUMBER, offsetof(struct args, timeout_ms) },
	{ "--conf",    ARG_TEXT,   offsetof(struct args, conf) },
	{ "--node",    ARG_TEXT,   offsetof(struct args, node) },
	{ "--step",    ARG_FLAG,   offsetof(struct args, step) },
};
#define GIVEN_JOB 1
#define GIVEN_UID 2
#define GIVEN_GID 4
/* clang-format on */

static int read_args(struct args *a, char *const *argv)
{
	for (size_t i; *argv; argv++) {
		void *to;

		for (i = 0; i < ARRAY_SIZE(arg_table) && strcmp(*argv, arg_table[i].name); i++)
			;
		if (i == ARRAY_SIZE(arg_table))
			return -1;
		to = (char *)a + arg_table[i].offset;
		a->given |= 1U << i;
		if (arg_table[i].type == ARG_FLAG) {
			*(bool *)to = true;
			continue;
		}
		if (!*++argv)
			return -1;
		if (arg_table[i].type == ARG_TEXT)
			*(const char **)to = *argv;
		else if (parse_uint32(*argv, to) < 0)
			return -1;
	}
	return 0;
}

/* Goes into a path: no dots, no slashes. */
static bool is_name(const char *s)
{
	return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")] == '\0';
}

static int cmd_run(const struct args *a)
{
	static struct keeper k = { .spec_fd = -1, .status_fd = -1, .dir = JOBDIR_INIT,
				   .daemon_fd = -1, .worker_fd = -1, .listen_fd = -1, .log_fd = -1 };
	sigset_t set;

	k.job_id = a->job;
	k.restart = a->restart;
	k.uid = a->uid;
	k.gid = a->gid;
	k.in_step = a->step;
	k.conf_path = a->conf;
	k.node = a->node && is_name(a->node) ? a->node : NULL;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_SETMASK, &set, NULL);
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
	const struct clean_options o = { .end_keeper = true,
					 .timeout_ms = a->timeout_ms ? a->timeout_ms
								     : CLEAN_TIMEOUT_MS };
	struct error err = ERROR_INIT;
	_cleanup_(fd_closep) int base = -1;
	char name[16];
	int r;

	log_open("stage-keeper", -1, 1);
	log_set_job(a->job);
	snprintf(name, sizeof(name), "%u", a->job);
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

static int cmd_list(const struct args *a)
{
	struct error err = ERROR_INIT;

	return report(reap_list(&err), &err);
}

/* clang-format off */
static const struct {
	const char *name;
	int (*fn)(const struct args *a);
	uint32_t needs;
} commands[] = {
	{ "run",   cmd_run,   GIVEN_JOB | GIVEN_UID | GIVEN_GID },
	{ "clean", cmd_clean, GIVEN_JOB },
	{ "reap",  cmd_reap,  0 },
	{ "list",  cmd_list,  0 },
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
	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return puts("stage-keeper " STAGE_VERSION) < 0;
	while (argc > 1 && i < ARRAY_SIZE(commands) && strcmp(argv[1], commands[i].name))
		i++;
	if (argc < 2 || i == ARRAY_SIZE(commands) || read_args(&a, argv + 2) < 0 ||
	    (a.given & commands[i].needs) != commands[i].needs) {
		fputs("usage: stage-keeper run --job N --uid U --gid G [--restart R] [--step]\n"
		      "       stage-keeper clean --job N [--timeout MS]\n"
		      "       stage-keeper reap | list | --version\n"
		      "       each: [--conf FILE] [--node NAME]\n", stderr);
		return EXIT_USAGE;
	}
	if (geteuid() != 0) {
		fputs("stage-keeper: must be run by root\n", stderr);
		return EXIT_FAILURE;
	}
	return commands[i].fn(&a);
}
