/*
 * The helper waits for the end of a pipe whose other end this process holds. It has its own
 * session, so that signals to a process group do not reach it. It has no descriptor of /dev/fuse,
 * because such a descriptor would let readers wait for ever after the server has ended.
 */
#include "daemon/worker/sqfs-unmounter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/fusermount.h"

enum { UNMOUNTER_PIPE = 3 };

struct sqfs_unmounter {
	pid_t pid;
	int fd;
};

static void unmounter_run(int in, const char *path)
{
	sigset_t all;
	char c;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	if (in != UNMOUNTER_PIPE)
		dup2(in, UNMOUNTER_PIPE);
	fd_close_from(UNMOUNTER_PIPE + 1);
	while (read(UNMOUNTER_PIPE, &c, 1) < 0 && errno == EINTR)
		;
	_exit(fusermount_unmount(path, NULL) < 0);
}

int sqfs_unmounter_new(struct sqfs_unmounter **up, const char *path, struct error *err)
{
	struct sqfs_unmounter *u = malloc(sizeof(*u));
	int fds[2];

	if (!u)
		return error_set(err, ENOMEM, "no memory to serve the image");
	if (pipe2(fds, O_CLOEXEC) < 0) {
		free(u);
		return error_errno(err, errno, "pipe");
	}
	u->fd = fds[1];
	u->pid = fork();
	if (u->pid == 0)
		unmounter_run(fds[0], path);
	close(fds[0]);
	if (u->pid < 0) {
		int errnum = errno;

		close(u->fd);
		free(u);
		return error_errno(err, errnum, "fork");
	}
	*up = u;
	return 0;
}

void sqfs_unmounter_free(struct sqfs_unmounter *u)
{
	if (!u)
		return;
	close(u->fd);
	while (waitpid(u->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(u);
}
