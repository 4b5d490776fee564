/*
 * A job in its own mount namespace (job_container/tmpfs) does not see mounts that are made after
 * the namespace. A child process makes a detached copy of the mount, enters the namespace, whose
 * root becomes its root and working directory, and attaches the copy. There it walks the path
 * without following a link. The directory at its end must be the same directory that we mounted on,
 * because others may have put something else at this path in that namespace, and a mount that has
 * arrived by propagation is another file system.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/root-path.h"

/* Opens a file of a namespace, but never a device or a pipe. Returns an fd or -errno. -EINVAL: the
 * namespace is not mounted there yet. */
static int open_namespace(const char *path)
{
	const char *name;
	_cleanup_(fd_closep) int dir = root_path_open_above(path, &name), fd = -1;
	struct statfs fs;

	fd = dir < 0 ? dir : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return dir < 0 ? dir : -errno;
	if (fs.f_type != NSFS_MAGIC)
		return -EINVAL;
	fd_closep(&fd);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return fd < 0 ? -errno : steal_fd(&fd);
}

int repeat_attach(int tree, int dir, const char *path, const char *ns_path)
{
	_cleanup_(fd_closep) int ns = -1, parent = -1, target = -1;
	char link[32], parent_path[PATH_MAX] = "", walked[64];
	struct stat here, there;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	if (readlink(link, parent_path, sizeof(parent_path) - 1) < 0 || fstat(dir, &here) < 0)
		return -errno;
	/* Slurm's plugin makes the file, then the namespace, and then mounts the namespace on the
	 * file. Before the last step, the result is -EINVAL. */
	for (int i = 0; (ns = open_namespace(ns_path)) == -EINVAL && i < 100; i++)
		poll(NULL, 0, 10);
	if (ns == -ENOENT)
		return 0; /* the namespace does not exist yet, and will contain this mount */
	if (ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return ns < 0 ? ns : -errno;
	parent = root_path_open(parent_path);
	if (parent < 0 || fstat(parent, &there) < 0)
		return parent < 0 ? parent : -errno;
	if (there.st_dev != here.st_dev || there.st_ino != here.st_ino)
		return -EXDEV;
	snprintf(walked, sizeof(walked), "%s", path);
	target = privop_open_below(parent, walked);
	if (target == -EXDEV)
		return 0; /* the mount has arrived by propagation, or something else is mounted
			   * there */
	return target < 0 ? target : mount_attach(tree, target);
}

/* Attack: the text names the namespace of another job. Then the mount of this job appears there,
 * too, on the same directory of root, to which no other user has access. Nothing else can be
 * mounted, and no other directory can be hidden. */
int privop_repeat(struct keeper *k, struct call *c)
{
	const char *const slash = strchr(c->name, '/'), *const base = slash ? slash + 1 : c->name;
	_cleanup_(fd_closep) int dir = openat(c->dir, slash ? RUNDIR_MOUNTS : ".",
					      O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(fd_closep) int tree = dir < 0 ? -errno : mount_copy(dir, base, 0);

	return tree < 0 ? tree : repeat_attach(tree, dir, base, c->a->text);
}
