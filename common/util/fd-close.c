/*
 * Newer system calls are called by number, so that what was built on a new glibc runs on an old
 * kernel and the reverse; each has a fallback that a test forces with seccomp.
 */
#include "common/util/fd-close.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

static int close_by_proc(int from)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc/self/fd");
	struct dirent *e;
	int n;

	while (dir && (errno = 0, e = readdir(dir))) {
		n = atoi(e->d_name); /* or a dot */
		if (e->d_name[0] != '.' && n >= from && n != dirfd(dir))
			close(n);
	}
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
