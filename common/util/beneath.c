#include "common/util/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

/* The numbers are the same on all architectures; older headers lack them. */
#define NR_OPENAT2 437
#define BENEATH                                                                                    \
	(0x08 | 0x04 | 0x02) /* RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS */

/* Opens one component at a time, each with O_NOFOLLOW. */
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

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	const bool makes = flags & O_CREAT ||
			   (flags & O_TMPFILE) == O_TMPFILE; /* O_TMPFILE includes the bit of
							      * O_DIRECTORY */
	/* A struct open_how. A mode that is not needed is an error. */
	const uint64_t how[] = { (unsigned)(flags | O_CLOEXEC), makes ? mode : 0, BENEATH };
	int fd;

	do {
		fd = (int)syscall(NR_OPENAT2, dirfd, path, how, sizeof(how));
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	if (fd >= 0)
		return fd;
	if (errno != ENOSYS && errno != EPERM) /* EPERM: from a seccomp filter that is older than
					        * the call */
		return -errno;
	return open_beneath_walk(dirfd, path, flags, mode);
}

DIR *fd_open_dir(int dirfd, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name,
					     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		steal_fd(&fd);
	return dir;
}
