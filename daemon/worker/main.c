/*
 * stage-worker: stages one dataset, as the user. It gets its task on fd 3 (docs/protocol.md).
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/file-size-limit.h"
#include "common/util/log.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/worker-stage.h"

/* Forbids core files, because the memory contains the user's data. */
static void forbid_core(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
}

int main(int argc, char **argv)
{
	_cleanup_(ctx_freep) struct ctx *ctx = NULL;
	struct error err = ERROR_INIT;

	if (argc > 1) {
		dprintf(STDERR_FILENO,
			"stage-worker is started by stagingd and takes no arguments\n");
		return STAGE_EXIT_USAGE;
	}
	signal(SIGPIPE, SIG_IGN);
	file_size_limit_catch();
	prctl(PR_SET_NAME, "stage-worker"); /* after execveat() of an fd, it is a number */
	prctl(PR_SET_DUMPABLE, 0);
	/* modes are those of the source; all data is below a directory of the user with mode
	 * 0700 */
	umask(0);
	forbid_core();
	fd_raise_limit(); /* the copy keeps a few directories open for each level and thread */
	fd_set_cloexec(WORKER_FD_SOCKET, true);
	log_open("stage-worker", STDERR_FILENO, 0);
	if (conn_check_own(WORKER_FD_SOCKET) < 0) {
		log_error("fd %d is no connection of this user's", WORKER_FD_SOCKET);
		return 1;
	}
	if (ctx_new(&ctx, WORKER_FD_SOCKET, &err) < 0) {
		log_error("%s", err.text);
		return 1;
	}
	log_set_job((uint32_t)strtoul(ctx->job, NULL, 10));
	return stage_run(ctx);
}
