/*
 * The child gets the image's descriptor and one end of a pipe, walks, writes one record and exits.
 * The parent accepts only a complete record. The child opens the image again, so its caches end
 * with it, and it shares no lock with the parent, which may have threads. It is confined before it
 * reads the first byte. Its memory limit is set when it has read the superblock.
 */
#include "daemon/engines/image/sqfs-check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/child-bind.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-jail.h"

enum {
	CHECK_POLL_MS = 100,
	CHECK_CACHE = 32 << 20,
	CHECK_MEMORY = 256 << 20,
	CHECK_INODES_MEMORY = 512 << 20, /* maximum, whatever number of inodes the image claims */
	CHECK_MIN_SECONDS = 3,
	CHECK_BYTES_PER_SECOND = 1 << 20, /* minimum speed; fifty times slower than measured */
	CHECK_FD_IMAGE = 3,
	CHECK_FD_OUT,
	CHECK_FD_CLOSED, /* this descriptor and all above it are closed */
};

struct check_record {
	int code;
	struct sqfs_counts counts;
	char text[512];
};

static void check_child(int fd, int out)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	struct check_record record = { 0 };
	struct error err = ERROR_INIT;
	const struct sqfs_super *s;
	uint64_t more;

	sqfs_jail_enter();
	record.code = sqfs_image_open(&img, fd, CHECK_CACHE, &err);
	if (record.code == 0) {
		s = sqfs_image_get_super(img);
		/* The stack of directories takes 16 bytes for each inode, and is doubled when it
		 * grows. 512 fragments take 8 bytes. */
		more = s->n_inodes * UINT64_C(50) + s->n_fragments / 64;
		sqfs_jail_limit(
			CHECK_MEMORY + (more < CHECK_INODES_MEMORY ? more : CHECK_INODES_MEMORY),
			(uint32_t)((s->bytes_used - s->inode_table) / CHECK_BYTES_PER_SECOND) +
				CHECK_MIN_SECONDS);
		record.code = sqfs_check_walk(img, &record.counts, &err);
	}
	snprintf(record.text, sizeof(record.text), "%.*s", (int)sizeof(record.text) - 1, err.text);
	(void)fd_write_all(out, &record, sizeof(record));
}

/* Keeps only two of the worker's open descriptors in the child. Returns false if this is not
 * possible. */
static bool check_keep_two(int fd, int out)
{
	fd = fcntl(fd, F_DUPFD_CLOEXEC, CHECK_FD_CLOSED);
	out = fcntl(out, F_DUPFD_CLOEXEC, CHECK_FD_CLOSED);
	if (dup2(fd, CHECK_FD_IMAGE) < 0 || dup2(out, CHECK_FD_OUT) < 0)
		return false;
	fd_close_from(CHECK_FD_CLOSED);
	return true;
}

static pid_t check_spawn(int fd, int out)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	sigset_t none;

	if (pid != 0)
		return pid;
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (child_bind_to(parent, SIGKILL) && check_keep_two(fd, out))
		check_child(CHECK_FD_IMAGE, CHECK_FD_OUT);
	_exit(0);
}

/* Reads the child's record. Returns 0 also if the record is incomplete. */
static int check_wait(int in, struct check_record *record, size_t *sizep,
		      bool (*is_cancelled)(void *arg), void *arg)
{
	*sizep = 0;
	while (*sizep < sizeof(*record)) {
		struct pollfd p = { in, POLLIN, 0 };
		int r = poll(&p, 1, CHECK_POLL_MS);
		ssize_t n;

		if (is_cancelled && is_cancelled(arg))
			return -ECANCELED;
		if (r <= 0)
			continue;
		n = read(in, (char *)record + *sizep, sizeof(*record) - *sizep);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		*sizep += (size_t)n;
	}
	return 0;
}

int sqfs_check_begin(struct sqfs_check *c, int fd, struct error *err)
{
	_cleanup_(fd_closep) int in = -1;
	int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "check the image: pipe");
	in = pipe_fds[0];
	c->pid = check_spawn(fd, pipe_fds[1]);
	close(pipe_fds[1]);
	if (c->pid < 0)
		return error_errno(err, errno, "check the image: fork");
	c->in = steal_fd(&in);
	return 0;
}

int sqfs_check_end(struct sqfs_check *c, struct sqfs_counts *counts,
		   bool (*is_cancelled)(void *arg), void *arg, struct error *err)
{
	_cleanup_(fd_closep) int in = steal_fd(&c->in);
	struct check_record record = { 0 };
	int status = 0, r;
	size_t size;

	r = check_wait(in, &record, &size, is_cancelled, arg);
	if (r < 0)
		kill(c->pid, SIGKILL);
	while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return error_set(err, ECANCELED, "cancelled while the image was checked");
	if (size < sizeof(record)) {
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
			return error_set(err, EIO, "image is damaged: its check does not end");
		if (WIFSIGNALED(status))
			return error_set(err, EIO,
					 "image is damaged: its check ended by signal %d (%s)",
					 WTERMSIG(status), strsignal(WTERMSIG(status)));
		return error_set(err, EIO, "image is damaged: its check ended by status %d",
				 WEXITSTATUS(status));
	}
	record.text[sizeof(record.text) - 1] = '\0';
	if (record.code < 0)
		return error_set(err, -record.code, "%s", record.text);
	*counts = record.counts;
	return 0;
}

int sqfs_check_run(int fd, struct sqfs_counts *counts, bool (*is_cancelled)(void *arg), void *arg,
		   struct error *err)
{
	struct sqfs_check c;
	int r = sqfs_check_begin(&c, fd, err);

	return r < 0 ? r : sqfs_check_end(&c, counts, is_cancelled, arg, err);
}
