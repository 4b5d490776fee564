/*
 * Newer system calls are called by number, so that what was built on a new glibc runs on an old
 * kernel and the reverse. Closing has a fallback that a test forces with seccomp.
 */
#include "common/util/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

/* The numbers are the same on all architectures; older headers lack them. */
#define NR_PIDFD_SEND_SIGNAL 424
#define NR_PIDFD_OPEN 434
#define NR_CLOSE_RANGE 436

#define MAX_RAISED 65536

void fd_fill_standard(void)
{
	static const int modes[] = { O_WRONLY, O_RDONLY, O_RDONLY };

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
			return;
}

int fd_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = write(fd, p, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int fd_pwrite_all(int fd, const void *data, size_t size, uint64_t offset)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = pwrite(fd, p, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

ssize_t fd_pread_all(int fd, void *data, size_t size, uint64_t offset)
{
	size_t done = 0;
	ssize_t n;

	while (done < size) {
		n = pread(fd, (char *)data + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_read_all(int fd, void *data, size_t size)
{
	char *p = data;
	ssize_t n;

	while (size > 0) {
		n = read(fd, p, size);
		if (n == 0 || (n < 0 && errno != EINTR))
			return n == 0 ? -EPIPE : -errno;
		p += n < 0 ? 0 : n;
		size -= n < 0 ? 0 : (size_t)n;
	}
	return 0;
}

int fd_read_file(int fd, size_t max, char **datap, size_t *sizep)
{
	_cleanup_(freep) char *data = NULL;
	size_t size = 0, room = 0;
	char *bigger;
	ssize_t n;

	for (;;) {
		if (size == room) {
			if (room > max)
				return -EFBIG;
			room = room ? room * 2 : 4096;
			if (room > max)
				room = max + 1;
			bigger = realloc(data, room + 1);
			if (!bigger)
				return -ENOMEM;
			data = bigger;
		}
		n = read(fd, data + size, room - size);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		size += (size_t)n;
	}
	if (size > max)
		return -EFBIG;
	data[size] = '\0';
	*datap = steal_ptr(data);
	*sizep = size;
	return 0;
}

static int change_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -errno;
	flags = on ? flags | flag : flags & ~flag;
	return fcntl(fd, set, flags) < 0 ? -errno : 0;
}

int fd_set_nonblock(int fd, bool on)
{
	return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
	return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_reopen(int fd, int flags)
{
	char name[64];
	int again;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	again = open(name, flags | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}

static int close_by_proc(int from)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int n;

	while (dir && (errno = 0, e = readdir(dir))) {
		n = atoi(e->d_name); /* 0 for "." and ".." */
		if (e->d_name[0] != '.' && n >= from && n != dirfd(dir))
			close(n);
	}
	return -errno;
}

void fd_close_from(int from)
{
	struct rlimit limit = { 0 };
	rlim_t n;

	if (syscall(NR_CLOSE_RANGE, (unsigned)from, ~0U, 0) == 0)
		return;
	if (close_by_proc(from) == 0)
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	for (n = (rlim_t)from; n < limit.rlim_cur && n < 1048576; n++)
		close((int)n);
}

void fd_raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= MAX_RAISED)
		return;
	limit.rlim_cur = limit.rlim_max < MAX_RAISED ? limit.rlim_max : MAX_RAISED;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int fd_pidfd_open(pid_t pid)
{
	int fd = (int)syscall(NR_PIDFD_OPEN, pid, 0);

	return fd < 0 ? -errno : fd;
}

int fd_pidfd_kill(int pidfd, int sig)
{
	return syscall(NR_PIDFD_SEND_SIGNAL, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}
