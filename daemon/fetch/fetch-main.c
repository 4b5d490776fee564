/*
 * stage-fetch: the one program that has the network. Started by stage-worker, as the user, with a
 * connection on fd 3 (fetch.h) and an empty environment: no proxy, no key log, no configuration of
 * a library comes from there.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/sandbox/data-rlimit.h"
#include "common/sandbox/sandbox.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "daemon/fetch/fetch-serve.h"
#include "daemon/fetch/http-get.h"
#include "daemon/worker/web/fetch.h"

#define FETCH_MEMORY                                                                               \
	(128 << 20) /* TLS, pages of lists; beside what data-rlimit.h gives each thread */

int main(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };

	if (argc > 1) {
		dprintf(STDERR_FILENO, "stage-fetch is started by stage-worker and takes no "
				       "arguments\n");
		return STAGE_EXIT_USAGE;
	}
	clearenv();
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, "stage-fetch");
	prctl(PR_SET_DUMPABLE, 0); /* keys of the user's */
	setrlimit(RLIMIT_CORE, &none);
	fd_set_cloexec(WORKER_FD_SOCKET, true);
	log_open("stage-fetch", STDERR_FILENO, 0);
	if (conn_check_own(WORKER_FD_SOCKET) < 0 || http_global_init() < 0)
		return 1;
	data_rlimit_set_to(FETCH_MEMORY, FETCH_MAX_THREADS);
	sandbox_enter_fetcher();
	_exit(fetch_serve(WORKER_FD_SOCKET)); /* the threads are in the middle of something */
}
