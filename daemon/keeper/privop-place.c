/*
 * A dataset that is mounted, kept or on a disk becomes a real directory or file of the job's tmpfs:
 * a bind mount on t/data/<name>.
 *
 * A process of the user's opens the source (O_PATH) and sends it: root could not walk into a FUSE
 * file system, or into a shared one that squashes root, and a walk could hang. So root walks to the
 * target alone, which is in memory. Nobody gets by this what he could not open already.
 *
 * All of it is done by a child (child_do()): close() of a descriptor that is not O_PATH asks a FUSE
 * server, and a mount waits for the lock of a directory, which such a server may have.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#define PLACE_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
#define PLACE_FLAGS (AT_EMPTY_PATH | AT_STATX_DONT_SYNC)
#define PLACE_DATA (&RUNDIR_DATA[sizeof(RUNDIR_MEMORY)]) /* below the tmpfs */

/* The same number on all architectures; older headers lack it. */
#define NR_MOUNT_SETATTR 442

/* struct mount_attr of newer headers */
struct attributes {
	uint64_t set, clear, propagation, userns_fd;
};

/* Attack: a name with a slash or a dot leads out of the job's data. */
static bool is_name(const char *name)
{
	const size_t n = strspn(name, PLACE_CHARS);

	return n > 0 && n <= PRIVOP_PLACE_MAX_NAME && name[n] == '\0';
}

/* The top of the job's tmpfs. Attack: the tmpfs is not mounted (yet), and `t` is a directory of
 * /run; or the call names something else. */
static int open_top(const struct keeper *k, const struct call *c)
{
	_cleanup_(fd_closep) int top = -1;
	struct stat dir, st;

	if (!k->uid || c->a->name != PRIVOP_NAME_MEMORY || !is_name(c->a->text))
		return -EPERM;
	top = openat(c->dir, c->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0 || fstat(top, &st) < 0 || fstat(c->dir, &dir) < 0)
		return -errno;
	return st.st_uid == 0 && st.st_dev != dir.st_dev ? steal_fd(&top) : -EPERM;
}

/* What is opened is what is mounted on, wherever its name goes meanwhile. */
static int open_target(const struct keeper *k, int top, char *path, struct stat *st)
{
	/* Attack: the name is a link, or something is mounted on it or on `data`: refused. */
	_cleanup_(fd_closep) int target = privop_open_below(top, path);

	if (target < 0)
		return target;
	if (fstat(target, st) < 0)
		return -errno;
	/* Attack: a place on data that was announced, which would hide it. A new one has mode 0. */
	if ((st->st_mode & 07777) != 0)
		return -EBUSY;
	/* Attack: a device, a socket or a link as a mount point. */
	if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
		return -EPERM;
	return st->st_uid == k->uid ? steal_fd(&target) : -EPERM;
}

/* Root may ask a FUSE mount for nothing, not even for its owner. One of this job's slots is known
 * by its mount. */
static bool is_on_slot(const struct keeper *k, int fd)
{
	const long id = mount_get_id(fd);

	for (size_t i = 0; i < ARRAY_SIZE(k->slots); i++)
		if (id >= 0 && k->slots[i].fd >= 0 && mount_get_id(k->slots[i].fd) == id)
			return true;
	return false;
}

static int check_source(const struct keeper *k, int source, const struct stat *target)
{
	struct statx st;

	if (statx(source, "", PLACE_FLAGS, STATX_TYPE | STATX_UID, &st) < 0)
		/* Attack: a slot of another job's. The kernel refuses what is no directory. */
		return errno == EACCES && S_ISDIR(target->st_mode) && is_on_slot(k, source)
			       ? 0
			       : -EPERM;
	/* Attack: what others own, which a manager could have opened by itself. */
	if (st.stx_uid != k->uid)
		return -EPERM;
	/* Attack: a link or a device as the source. */
	if ((st.stx_mode & S_IFMT) != (target->st_mode & S_IFMT))
		return -EPERM;
	/* Attack: the tmpfs in itself, which would have no end for whoever walks through it. */
	if (makedev(st.stx_dev_major, st.stx_dev_minor) == target->st_dev)
		return -EPERM;
	return 0;
}

/* Before it is attached it gets a life of its own: a peer of the source's mount would get what the
 * user mounts below the other one. */
static int copy_source(int source)
{
	struct attributes a = { .set = 2 | 4, .propagation = MS_PRIVATE }; /* nosuid, nodev */
	_cleanup_(fd_closep) int tree = mount_copy(source, "");

	if (tree < 0)
		return tree;
	return syscall(NR_MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0
		       ? -errno
		       : steal_fd(&tree);
}

/* A job with a mount namespace of its own would see an empty directory. */
static int place_in_namespace(int source, int top, const char *path, const char *ns_path)
{
	struct repeat rep = { .base = path, .ns_path = ns_path, .tree_fd = copy_source(source) };
	int r = rep.tree_fd < 0 ? rep.tree_fd : repeat_fill_parent(&rep, top);

	if (r == 0)
		r = repeat_attach(&rep);
	return r == -EXDEV ? -ESTALE : r; /* here something is mounted, which -EXDEV denies */
}

int privop_place(struct keeper *k, struct call *c)
{
	const char *const name = c->a->text, *const ns_path = name + strlen(name) + 1;
	_cleanup_(fd_closep) int top = open_top(k, c), target = -1, tree = -1;
	char path[64], walked[64];
	struct stat st;
	int r;

	if (top < 0 || !c->source)
		return top < 0 ? top : -EPERM;
	snprintf(path, sizeof(path), "%s/%s", PLACE_DATA, name);
	strcpy(walked, path);
	target = open_target(k, top, walked, &st);
	if (target < 0)
		return target;
	r = check_source(k, *c->source, &st);
	if (r < 0)
		return r;
	tree = copy_source(*c->source);
	if (tree < 0)
		return tree;
	r = mount_attach(tree, target);
	if (r < 0)
		return r;
	return *ns_path ? place_in_namespace(*c->source, top, path, ns_path) : 0;
}

int privop_unplace(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int top = open_top(k, c), data = -1;
	char path[] = RUNDIR_DATA;
	int r;

	if (top < 0)
		return top;
	/* Attack: something is mounted on `data`, whose server would be asked for the name. */
	data = privop_open_below(top, path + sizeof(RUNDIR_MEMORY));
	if (data < 0)
		return data;
	do
		r = mount_detach_topmost(data, c->a->text);
	while (r == 0);
	return r == -EINVAL || r == -ENOENT ? 0 : r;
}
