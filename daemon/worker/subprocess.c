#include "daemon/worker/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/util/child-bind.h"
#include "common/util/fd.h"

/* Finds the program in the directory of this one, so that neither a build tree nor an installation
 * needs a setting. */
static int find_program(const char *program, char path[static PATH_MAX])
{
	size_t room = PATH_MAX - strlen(program) - sizeof("/");
	ssize_t n = readlink("/proc/self/exe", path, room);
	char *slash;

	if (n < 0)
		return -errno;
	path[n] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return -ENOENT;
	sprintf(slash, "/%s", program);
	return access(path, X_OK) < 0 ? -errno : 0;
}

/* Executes the program in the forked child, with an empty environment. Does not return. */
static void become(const char *path, const char *program, int sock, pid_t parent)
{
	char *const argv[] = { (char *)program, NULL };
	char *const no_env[] = { NULL };
	int null;

	if (!child_bind_to(parent, SIGKILL))
		_exit(0);
	if (sock != WORKER_FD_SOCKET && dup2(sock, WORKER_FD_SOCKET) < 0)
		_exit(126);
	fd_set_cloexec(WORKER_FD_SOCKET, false);
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDIN_FILENO);
	fd_close_from(WORKER_FD_SOCKET + 1);
	execve(path, argv, no_env);
	_exit(127);
}

int subprocess_start(const char *program, int *sockp, pid_t *pidp)
{
	pid_t parent = getpid(), pid;
	char path[PATH_MAX];
	int fds[2], r;

	r = find_program(program, path);
	if (r == 0)
		r = conn_pair(fds);
	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		become(path, program, fds[1], parent);
	r = -errno;
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return r;
	}
	*sockp = fds[0];
	*pidp = pid;
	return 0;
}

void subprocess_end(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
