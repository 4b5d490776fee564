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
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/fd.h"
#include "common/util/root-path.h"

#define CHILD_TIMEOUT_MS 1000

/* The same numbers on all architectures; older headers lack them. */
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define TREE_CLONE 1
#define MOVE_EMPTY_PATHS (0x04 | 0x40) /* MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH */

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

int mount_copy(int dirfd, const char *name)
{
	const int fd = (int)syscall(NR_OPEN_TREE, dirfd, name,
				    TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);

	return fd < 0 ? -errno : fd;
}

int mount_attach(int tree_fd, int target)
{
	return syscall(NR_MOVE_MOUNT, tree_fd, "", target, "", MOVE_EMPTY_PATHS) < 0 ? -errno : 0;
}

int repeat_attach(const struct repeat *rep)
{
	_cleanup_(fd_closep) int ns = -1, parent = -1, target = -1;
	char path[64];
	struct stat st;

	/* The plugin makes the file, then the namespace, and then mounts it there: until then it's
	 * EINVAL */
	while ((ns = open_namespace(rep->ns_path)) == -EINVAL)
		poll(NULL, 0, 10);
	if (ns == -ENOENT)
		return 0; /* it will be made with all that is mounted by then */
	if (ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return ns < 0 ? ns : -errno;
	parent = root_path_open(rep->parent_path);
	if (parent < 0 || fstat(parent, &st) < 0)
		return parent < 0 ? parent : -errno;
	if (st.st_dev != rep->parent.st_dev || st.st_ino != rep->parent.st_ino)
		return -EXDEV;
	snprintf(path, sizeof(path), "%s", rep->base);
	target = privop_open_below(parent, path);
	if (target == -EXDEV)
		return 0; /* it has come by propagation, or something else is mounted there */
	return target < 0 ? target : mount_attach(rep->tree_fd, target);
}

int repeat_fill_parent(struct repeat *rep, int parent)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", parent);
	n = readlink(link, rep->parent_path, sizeof(rep->parent_path) - 1);
	if (n < 0 || fstat(parent, &rep->parent) < 0)
		return -errno;
	rep->parent_path[n] = '\0';
	return 0;
}

static int copy_mount(struct repeat *rep, int dirfd, const char *name)
{
	_cleanup_(fd_closep) int parent = -1;
	int r;

	rep->base = strchr(name, '/') ? strchr(name, '/') + 1 : name;
	parent = openat(dirfd, rep->base == name ? "." : RUNDIR_MOUNTS, O_PATH | O_CLOEXEC);
	r = repeat_fill_parent(rep, parent);
	if (r < 0)
		return r;
	rep->tree_fd = mount_copy(parent, rep->base);
	return rep->tree_fd < 0 ? rep->tree_fd : 0;
}

int child_do(int (*fn)(void *arg), void *arg)
{
	const uint64_t deadline_ms = clock_ms() + CHILD_TIMEOUT_MS;
	const pid_t parent = getpid(), pid = fork();
	int status;
	pid_t r;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == parent ? -fn(arg) & 0xff : ECHILD);
	}
	while ((r = waitpid(pid, &status, WNOHANG)) == 0 && clock_ms() < deadline_ms)
		usleep(500);
	if (r == 0)
		kill(pid, SIGKILL);
	return r < 0		   ? -errno
	       : r == 0		   ? -ETIMEDOUT
	       : WIFEXITED(status) ? -WEXITSTATUS(status)
				   : -EINTR;
}

/* In a child, which is left behind when it hangs: of root's it keeps the tree alone, no lock. */
static int attach(void *arg)
{
	struct repeat *rep = arg;

	rep->tree_fd = dup2(rep->tree_fd, STDERR_FILENO + 1);
	fd_close_from(STDERR_FILENO + 2);
	return repeat_attach(rep);
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
		r = child_do(attach, &rep);
	fd_closep(&rep.tree_fd);
	return r;
}
