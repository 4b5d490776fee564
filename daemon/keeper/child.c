/*
 * Children of root's that do one thing for which root itself may not wait: a user's server, or a
 * lock that a user holds, may keep them. A child that does not end is left behind, and holds no
 * lock, socket or mount of root's. It ends with its keeper.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/fd.h"

#define CHILD_TIMEOUT_MS 1000

pid_t child_start(privop_fn fn, struct keeper *k, struct call *c, int a, int b)
{
	const pid_t parent = getpid(), pid = fork();

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	if (dup2(a, 0) < 0 || dup2(b, 1) < 0)
		_exit(EBADF);
	fd_close_from(STDERR_FILENO + 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(getppid() == parent ? -fn(k, c) & 0xff : ECHILD);
}

int child_do(privop_fn fn, struct keeper *k, struct call *c, int a)
{
	const uint64_t deadline_ms = clock_ms() + CHILD_TIMEOUT_MS;
	const pid_t pid = child_start(fn, k, c, a, STDERR_FILENO);
	int status;
	pid_t r;

	if (pid < 0)
		return pid;
	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && clock_ms() < deadline_ms)
		usleep(500);
	if (r == 0)
		kill(pid, SIGKILL);
	return r < 0		   ? -errno
	       : r == 0		   ? -ETIMEDOUT
	       : WIFEXITED(status) ? -WEXITSTATUS(status)
				   : -EINTR;
}
