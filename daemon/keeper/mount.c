/*
 * Functions that the operations on mounts share: finding the mount of a descriptor, walks that
 * never leave a mount, and copies of mounts. No function here sends a request to a user's file
 * system.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#define OPEN_ANY (O_PATH | O_NOFOLLOW | O_CLOEXEC)

/* The same numbers on all architectures; older headers lack them. */
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define NR_OPENAT2 437
#define BENEATH 0x0f /* RESOLVE_BENEATH, _NO_SYMLINKS, _NO_MAGICLINKS, _NO_XDEV */
#define TREE_CLONE 1
#define MOVE_EMPTY_PATHS (0x04 | 0x40) /* MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH */

long mount_get_id(int fd)
{
	char path[48], text[256] = "";
	const char *id;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	(void)!read(fd, text, sizeof(text) - 1);
	close(fd);
	id = strstr(text, "mnt_id:");
	return id ? atol(id + strlen("mnt_id:")) : -1;
}

/* Opens the path one name at a time, before Linux 5.6. Opening a name with O_PATH sends no request
 * to a file system that is mounted on it. */
static int walk_below(int dir, char *path)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	const long id = mount_get_id(fd);

	for (const char *name; fd >= 0 && (name = strsep(&path, "/"));) {
		const int parent = fd;

		fd = strcmp(name, "..") == 0 ? -1 : openat(parent, name, OPEN_ANY);
		close(parent);
		if (fd >= 0 && (id < 0 || mount_get_id(fd) != id))
			fd_closep(&fd);
	}
	return fd < 0 ? -EXDEV : fd;
}

int privop_open_below(int dir, char *path)
{
	const uint64_t how[] = { OPEN_ANY, 0, BENEATH }; /* struct open_how */
	const int fd = (int)syscall(NR_OPENAT2, dir, path, how, sizeof(how));

	if (fd >= 0)
		return fd;
	return errno == ENOSYS || errno == EPERM ? walk_below(dir, path) : -errno;
}

/* Attack: the tmpfs is not mounted (yet), and `t` is a directory in /run. */
int privop_open_memory(const struct call *c)
{
	_cleanup_(fd_closep) int top = openat(c->dir, c->name, OPEN_ANY | O_DIRECTORY);
	struct stat dir, st;

	if (top < 0 || fstat(top, &st) < 0 || fstat(c->dir, &dir) < 0)
		return -errno;
	return st.st_uid == 0 && st.st_dev != dir.st_dev ? steal_fd(&top) : -EPERM;
}

int mount_copy(int dirfd, const char *name, int flags)
{
	const int fd = (int)syscall(NR_OPEN_TREE, dirfd, name, TREE_CLONE | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

int mount_attach(int tree, int target)
{
	return syscall(NR_MOVE_MOUNT, tree, "", target, "", MOVE_EMPTY_PATHS) < 0 ? -errno : 0;
}
