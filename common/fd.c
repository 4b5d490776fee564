/*
 * Newer system calls are called by number, so that what was built on a new glibc runs on an old
 * kernel and the reverse; each has a fallback that a test forces with seccomp.
 */
#include "common/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/parse.h"

int fd_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = write(fd, p, size);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int fd_read_all(int fd, void *data, size_t size)
{
	char *p = data;
	ssize_t n;

	while (size > 0) {
		n = read(fd, p, size);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			return -EPIPE;
		p += n;
		size -= (size_t)n;
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

static int close_by_proc(int from)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	uint32_t n;

	if (!dir)
		return -errno;
	while ((e = readdir(dir)))
		if (parse_uint32(e->d_name, &n) == 0 && n >= (uint32_t)from &&
		    n != (uint32_t)dirfd(dir))
			close((int)n);
	closedir(dir);
	return 0;
}

void fd_close_from(int from)
{
	struct rlimit limit = { 0 };
	rlim_t n;

#ifdef SYS_close_range
	if (syscall(SYS_close_range, (unsigned)from, ~0U, 0) == 0)
		return;
#endif
	if (close_by_proc(from) == 0)
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	for (n = (rlim_t)from; n < limit.rlim_cur && n < 1048576; n++)
		close((int)n);
}

/* One component at a time, each with O_NOFOLLOW. */
static int open_beneath_walk(int dirfd, const char *path, int flags, mode_t mode)
{
	_cleanup_(fd_closep) int here = -1;
	char name[256];
	int fd;

	if (*path == '/')
		return -EXDEV;
	for (;;) {
		size_t n = strcspn(path, "/");
		const char *rest = path + n + strspn(path + n, "/");

		if (n >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		if (!strcmp(name, ".."))
			return -EXDEV;
		if (!*rest && !path[n])
			break;
		fd = openat(here < 0 ? dirfd : here, n ? name : ".",
			    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOTDIR ? -ELOOP : -errno;
		fd_closep(&here);
		here = fd;
		path = rest;
		if (!*path) {
			strcpy(name, ".");
			break;
		}
	}
	if (!name[0])
		return -ENOENT;
	fd = openat(here < 0 ? dirfd : here, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

int fd_reopen(int fd, int flags)
{
	char name[64];
	int again;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	again = open(name, flags | O_CLOEXEC | O_NOCTTY);
	return again < 0 ? -errno : again;
}

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd;

	do {
		fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	if (fd >= 0)
		return fd;
	if (errno != ENOSYS)
		return -errno;
	return open_beneath_walk(dirfd, path, flags, mode);
}

int fd_pidfd_open(pid_t pid)
{
#ifdef SYS_pidfd_open
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
#else
	return -ENOSYS;
#endif
}

int fd_pidfd_kill(int pidfd, int sig)
{
#ifdef SYS_pidfd_send_signal
	return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
#else
	return -ENOSYS;
#endif
}

uint64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}
