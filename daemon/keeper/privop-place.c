/*
 * A dataset that is mounted, kept or on a disk becomes a real directory or file of the job's tmpfs
 * by a bind mount on t/data/<name>. A process of the user opens the source (O_PATH) and sends the
 * descriptor, because root could not open a path in a FUSE file system, or in a shared file system
 * that squashes root, and opening it could hang. So root walks only to the target, which is in
 * memory. The operation gives nobody access to a file that he could not open before. The kernel
 * refuses to mount a directory on a file, or the reverse. A child process does all of this: close()
 * of a descriptor that is not O_PATH sends a request to a FUSE server, and a mount waits for the
 * lock of a directory, which the user may hold.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"

#define PATH_SIZE 64 /* longer than the path of any dataset */

/* The same number on all architectures; older headers lack it. */
#define NR_MOUNT_SETATTR 442

/* Opens the target. The mount is made on the object that was opened, even if its name changes in
 * between. */
static int open_target(const struct keeper *k, int top, const char *path)
{
	char walked[PATH_SIZE];
	_cleanup_(fd_closep) int target = -1;
	struct stat st;

	/* Attack: the name is a link, or something is mounted on it or on `data`. This is
	 * refused. */
	snprintf(walked, sizeof(walked), "%s", path);
	target = privop_open_below(top, walked);
	if (target < 0 || fstat(target, &st) < 0)
		return target < 0 ? target : -errno;
	/* Attack: the mount would hide a dataset that is already announced. So the target must have
	 * the mode of an empty place. */
	return k->uid && st.st_uid == k->uid && (st.st_mode & 07777) == RUNDIR_PLACE_MODE
		       ? steal_fd(&target)
		       : -EPERM;
}

/* Returns true if the source is on a slot of this job or belongs to the user. Attack: the manager
 * sends a file of another owner, which it could have opened itself. Root must send no request to a
 * FUSE mount, not even for the owner of a file, so a slot is recognised by its mount. */
static bool may_show(const struct keeper *k, int source)
{
	const long id = mount_get_id(source);
	struct statx st;

	for (size_t i = 0; i < ARRAY_SIZE(k->slots); i++)
		if (id >= 0 && k->slots[i].fd >= 0 && k->slots[i].id == id)
			return true;
	return statx(source, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_UID, &st) == 0 &&
	       st.stx_uid == k->uid;
}

/* Copies the source's mount, and makes the copy private before it is attached. Otherwise it would
 * also get the mounts that the user makes below the source. */
static int copy_source(int source, bool read_only)
{
	/* struct mount_attr: nosuid, nodev and perhaps read-only are set; propagation */
	const uint64_t attr[] = { 2 | 4 | (read_only ? 1 : 0), 0, MS_PRIVATE, 0 };
	_cleanup_(fd_closep) int tree = mount_copy(source, "", AT_EMPTY_PATH);

	if (tree >= 0 && syscall(NR_MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, attr, sizeof(attr)) < 0)
		return -errno;
	return steal_fd(&tree);
}

static int place_in(const struct keeper *k, const struct call *c, int top, int source)
{
	const char *const path = c->a->text, *const ns = path + strnlen(path, PATH_SIZE) + 1;
	const int target = open_target(k, top, path);
	int tree, r;

	if (target < 0 || !may_show(k, source))
		return target < 0 ? target : -EPERM;
	tree = copy_source(source, c->a->n[0] == 1);
	r = tree < 0 ? tree : mount_attach(tree, target);
	if (r < 0 || !*ns)
		return r;
	/* A job with its own mount namespace would see an empty directory, so the mount is repeated
	 * there. */
	tree = copy_source(source, c->a->n[0] == 1);
	return tree < 0 ? tree : repeat_attach(tree, top, path, ns);
}

/* Runs in a child. When it receives the descriptor from outside, and while it closes it, it has no
 * descriptor of root that would keep the job's memory or a lock. */
static int place(struct keeper *k, struct call *c)
{
	_cleanup_(fd_closep) int top = -1;
	int source = -1;
	size_t n = 1;
	char byte;

	alarm(PRIVOP_PLACE_SECONDS);
	if (packet_receive(0, &byte, 1, &source, &n, 0) != 1 || !n)
		return -EPROTO;
	top = privop_open_memory(c);
	return top < 0 ? top : place_in(k, c, top, source);
}

int privop_place(struct keeper *k, struct call *c)
{
	return child_start(k, c, place);
}
