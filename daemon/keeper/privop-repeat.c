/*
 * A job in a mount namespace of its own (job_container/tmpfs) doesn't see what is mounted after the
 * namespace was made. A child takes a detached copy of the mount, enters the namespace, whose root
 * becomes its own and its working directory, and attaches it. There the path is walked without
 * following a link, and the directory it ends at must be the very one that we mounted on: in that
 * namespace others may have put something else at the path, and a mount that came by propagation
 * is another file system.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/fd.h"
#include "common/util/root-path.h"

#define REPEAT_TIMEOUT_MS 1000
#define STATX_FLAGS (AT_EMPTY_PATH | AT_STATX_DONT_SYNC)

/* The same numbers on all architectures; older headers lack them. */
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define TREE_CLONE 1
#define MOVE_EMPTY_PATHS (0x04 | 0x40) /* MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH */

struct repeat {
	int tree_fd;
	struct stat parent; /* of the directory that holds the mount point */
	char parent_path[PATH_MAX];
	const char *base, *ns_path;
};

/* Of a namespace, never of a device or a pipe. -EINVAL: not yet. */
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

static int enter_and_attach(const struct repeat *rep)
{
	_cleanup_(fd_closep) int ns = -1, parent = -1, target = -1;
	struct statx stx;
	struct stat st;

	/* The plugin makes the file, then the namespace, and then mounts it there: until then it's
	 * EINVAL */
	while ((ns = open_namespace(rep->ns_path)) == -EINVAL)
		poll(NULL, 0, 10);
	if (ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return ns < 0 ? ns : -errno;
	parent = root_path_open(rep->parent_path);
	if (parent < 0 || fstat(parent, &st) < 0)
		return parent < 0 ? parent : -errno;
	if (st.st_dev != rep->parent.st_dev || st.st_ino != rep->parent.st_ino)
		return -EXDEV;
	target = openat(parent, rep->base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* It may have come by propagation; of a user's FUSE root may not even ask. */
	if (target >= 0 && (statx(target, "", STATX_FLAGS, STATX_INO, &stx) < 0
				    ? errno == EACCES
				    : makedev(stx.stx_dev_major, stx.stx_dev_minor) != st.st_dev))
		return 0;
	return target < 0 || syscall(NR_MOVE_MOUNT, rep->tree_fd, "", target, "",
				     MOVE_EMPTY_PATHS) < 0
		       ? -errno
		       : 0;
}

static int copy_mount(struct repeat *rep, int dirfd, const char *name)
{
	_cleanup_(fd_closep) int parent = -1;
	char link[32];
	ssize_t n;

	rep->base = strchr(name, '/') ? strchr(name, '/') + 1 : name;
	parent = openat(dirfd, rep->base == name ? "." : RUNDIR_MOUNTS, O_PATH | O_CLOEXEC);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", parent);
	n = readlink(link, rep->parent_path, sizeof(rep->parent_path) - 1);
	if (n < 0 || fstat(parent, &rep->parent) < 0)
		return -errno;
	rep->parent_path[n] = '\0';
	rep->tree_fd = (int)syscall(NR_OPEN_TREE, parent, rep->base, TREE_CLONE | O_CLOEXEC);
	return rep->tree_fd < 0 ? -errno : 0;
}

/* In a child, which is left behind when it hangs: of root's it keeps the tree alone, no lock. */
static _Noreturn void run_child(struct repeat *rep)
{
	rep->tree_fd = dup2(rep->tree_fd, STDERR_FILENO + 1);
	fd_close_from(STDERR_FILENO + 2);
	_exit(-enter_and_attach(rep) & 0xff);
}

static int run(struct repeat *rep, uint64_t deadline_ms)
{
	const pid_t pid = fork();
	int status;
	pid_t r;

	if (pid < 0)
		return -errno;
	if (pid == 0)
		run_child(rep);
	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && clock_ms() < deadline_ms)
		usleep(500);
	if (r == 0)
		kill(pid, SIGKILL);
	return r < 0		   ? -errno
	       : r == 0		   ? -ETIMEDOUT
	       : WIFEXITED(status) ? -WEXITSTATUS(status)
				   : -EINTR;
}

int privop_repeat(struct keeper *k, struct call *c)
{
	struct repeat rep = { .ns_path = c->a->text, .tree_fd = -1 };
	int r = open_namespace(rep.ns_path);

	if (r >= 0)
		close(r);
	else if (r != -EINVAL)
		return r == -ENOENT ? 0 : r;
	r = copy_mount(&rep, c->dir, c->name);
	if (r == 0)
		r = run(&rep, clock_ms() + REPEAT_TIMEOUT_MS);
	fd_closep(&rep.tree_fd);
	return r;
}
