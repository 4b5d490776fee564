/*
 * Newer system calls are called by number, so that what was built on a new glibc runs on an old
 * kernel and the reverse; each has a fallback that a test forces with seccomp.
 */
#include "common/fd.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/number.h"

int fd_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = write(fd, p, size);
		if (n < 0 && errno != EINTR)
			return -errno;
		p += n < 0 ? 0 : n;
		size -= n < 0 ? 0 : (size_t)n;
	}
	return 0;
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

static int close_by_proc(int from)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	uint32_t n;

	while (dir && (errno = 0, e = readdir(dir)))
		if (parse_uint32(e->d_name, &n) == 0 && n >= (uint32_t)from &&
		    n != (uint32_t)dirfd(dir))
			close((int)n);
	return -errno;
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
