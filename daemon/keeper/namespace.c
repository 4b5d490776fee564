/*
 * mounts_repeat(): a job in a mount namespace of its own (job_container/tmpfs) doesn't see what is
 * mounted after the namespace was made. A child takes a detached copy of the mount, enters the
 * namespace, whose root becomes its own and its working directory, and attaches it. There the path
 * is walked without following a link, and the directory it ends at must be the very one that we
 * mounted on: in that namespace others may have put something else at the path.
 */
#include "daemon/keeper/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/mountinfo.h"
#include "common/rundir.h"
#include "daemon/keeper/proc.h"

#define REPEAT_TIMEOUT_MS 1000

/* The same numbers on all architectures; older headers lack them. */
#define NR_OPEN_TREE 428
#define NR_MOVE_MOUNT 429
#define NR_OPENAT2 437
#define TREE_CLONE 1
#define MOVE_EMPTY_PATHS (0x04 | 0x40) /* MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH */

struct repeat {
	int tree_fd;
	struct stat parent; /* of the directory that holds the mount point */
	char parent_path[PATH_MAX];
	const char *base, *ns_path;
};

static int enter_and_attach(void *arg)
{
	struct repeat *rep = arg;
	_cleanup_(fd_closep) int ns = -1, parent = -1, target = -1;
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	struct mountinfo m;
	struct stat st;
	int r;

	/* The plugin makes the file, then the namespace, and then mounts it there: until then it's EINVAL */
	for (; setns(ns, CLONE_NEWNS) < 0;
	     poll(NULL, 0, 10), ns = open(rep->ns_path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) {
		if (ns >= 0 && errno != EINVAL)
			return -errno;
		fd_closep(&ns);
	}
	parent = (int)syscall(NR_OPENAT2, AT_FDCWD, rep->parent_path + 1, &how, sizeof(how));
	if (parent < 0)
		return -errno;
	if (fstat(parent, &st) < 0 || st.st_dev != rep->parent.st_dev ||
	    st.st_ino != rep->parent.st_ino)
		return -EXDEV;
	r = mountinfo_find_at(&m, parent, rep->base);
	if (r != -ENOENT)
		return r; /* 0: it came by propagation */
	target = openat(parent, rep->base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return target < 0 || syscall(NR_MOVE_MOUNT, rep->tree_fd, "", target, "", MOVE_EMPTY_PATHS) < 0 ? -errno : 0;
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

int mounts_repeat(int dirfd, const char *name, const char *ns_path, struct error *err)
{
	struct repeat rep = { .ns_path = ns_path, .tree_fd = -1 };
	int r;

	if (access(ns_path, F_OK) < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", ns_path);
	r = copy_mount(&rep, dirfd, name);
	if (r == 0)
		r = proc_run(enter_and_attach, &rep, clock_ms() + REPEAT_TIMEOUT_MS);
	fd_closep(&rep.tree_fd);
	return r < 0 ? error_errno(err, -r, "mount %s in %s", name, ns_path) : 0;
}
