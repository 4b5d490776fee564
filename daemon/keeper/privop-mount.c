/*
 * Mounts of the job's tmpfs and its FUSE slots. They are in root's directories below the run
 * directory and are nosuid and nodev. The top directory of the tmpfs belongs to root, its content
 * to the user. Only the job's user can enter a slot, and not even root can. So root never waits for
 * a user's file system. All targets are reached by descriptor, and mount options are made of
 * integers only. O_PATH sends no request to the file system that is mounted there.
 */
#include "daemon/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/protocol/tier-name.h"
#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/root-path.h"

#define MOUNTS_SOURCE "stage-data"
#define MOUNTS_MAX_READ (1024 * 1024)
#define FUSE_CLONE _IOR(229, 0, uint32_t) /* FUSE_DEV_IOC_CLONE */
#define BELOW_MEMORY(path) (&(path)[sizeof(RUNDIR_MEMORY)])
#define OPEN_TARGET (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Opens the directory that the call names, creates it if it is missing, and makes its path from the
 * descriptor. */
static int open_target(struct call *c, mode_t mode, char path[static 32])
{
	int fd;

	if (mode && mkdirat(c->dir, c->name, mode) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(c->dir, c->name, OPEN_TARGET);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd < 0 ? -errno : fd;
}

/* Returns 0 or -errno. -EBUSY: something, perhaps of a user, is mounted on target, and root mounts
 * nothing on top of it. */
static int check_is_free(const struct call *c, int target)
{
	struct statx at;
	struct stat dir;

	if (fstat(c->dir, &dir) < 0 ||
	    statx(target, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &at) < 0)
		return errno == EACCES ? -EBUSY : -errno;
	return makedev(at.stx_dev_major, at.stx_dev_minor) == dir.st_dev ? 0 : -EBUSY;
}

/* Returns true for a size from 1 to the machine's memory. To the kernel, 0 means no limit. */
static bool is_size(int64_t size)
{
	struct sysinfo si;

	return sysinfo(&si) == 0 && size > 0 &&
	       (uint64_t)size <= (uint64_t)si.totalram * si.mem_unit;
}

static int detach_at(int dirfd, const char *name)
{
	char path[NAME_MAX + 32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dirfd, name);
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? errno : 0;
}

static long get_id_at(int dirfd, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : mount_get_id(fd);
}

/* Detaches the topmost mount on a name, which is not "." or "..". Attack: the process that drops
 * the last reference to a file system waits until its server has answered all requests, and no
 * signal ends this wait. So a child unmounts, and root continues as soon as the mount is
 * detached. */
static int detach_topmost(int dirfd, const char *name)
{
	const long id = get_id_at(dirfd, name);
	int status = 0; /* does not change while the child waits */
	pid_t pid;

	if (id == -ENOENT || (id >= 0 && id == mount_get_id(dirfd)) ||
	    (!name[strspn(name, ".")] && strlen(name) <= 2))
		return id == -ENOENT ? -ENOENT : -EINVAL;
	pid = fork();
	if (pid < 0)
		return -detach_at(dirfd, name);
	if (pid == 0) {
		dup2(dirfd, 0);
		fd_close_from(1);
		_exit(detach_at(0, name));
	}
	while (waitpid(pid, &status, WNOHANG) == 0 && get_id_at(dirfd, name) == id)
		usleep(500);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}

/* The top directory stays root's, so no user can mount on it, or rename or replace its entries. A
 * directory is given to the user after root has made everything in it. */
static int fill_memory(const struct keeper *k, const struct call *c)
{
	static const char *const names[] = { BELOW_MEMORY(RUNDIR_DATA),
					     BELOW_MEMORY(RUNDIR_PRIVATE),
					     BELOW_MEMORY(RUNDIR_TMP) };
	_cleanup_(fd_closep) int top = privop_open_memory(c);

	if (top < 0)
		return top;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (mkdirat(top, names[i], 0700) < 0)
			return -errno;
	for (size_t i = ARRAY_SIZE(names); i > 0; i--)
		if (fchownat(top, names[i - 1], k->uid, k->gid, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
	return 0;
}

/* Mode 0711: when the tmpfs is gone, a look-up in this directory must fail with ENOENT, not with
 * EACCES. */
int privop_memory(struct keeper *k, struct call *c)
{
	static const char *const huge[] = { ",huge=within_size", "" };
	char path[32], options[128];
	const bool fits = c->a->name == PRIVOP_NAME_MEMORY && is_size(c->a->n[0]) && c->a->n[1] > 0;
	_cleanup_(fd_closep) int target = k->uid && fits ? open_target(c, 0711, path) : -EPERM;
	int r = target < 0 ? target : check_is_free(c, target);

	if (r == 0)
		r = -EINVAL;
	for (size_t i = 0; r == -EINVAL && i < ARRAY_SIZE(huge); i++) {
		snprintf(options, sizeof(options), "mode=0711,size=%llu,nr_inodes=%llu%s",
			 (unsigned long long)c->a->n[0], (unsigned long long)c->a->n[1], huge[i]);
		r = mount(MOUNTS_SOURCE, path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ? -errno
											   : 0;
	}
	return r < 0 ? r : fill_memory(k, c);
}

int privop_resize(struct keeper *k, struct call *c)
{
	char path[32], options[32];
	_cleanup_(fd_closep) int target = open_target(c, 0, path);

	snprintf(options, sizeof(options), "size=%llu", (unsigned long long)c->a->n[0]);
	if (target < 0 || c->a->name != PRIVOP_NAME_MEMORY || !is_size(c->a->n[0]))
		return target < 0 ? target : -EINVAL;
	return mount(NULL, path, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

/* Opens a descriptor for each thread of the server, so that the threads do not share a queue
 * lock. */
static int open_fuse(struct call *c, size_t n_fds)
{
	int r = 0;

	while (r == 0 && c->n_out < n_fds)
		r = privop_give(c, open("/dev/fuse", O_RDWR | O_CLOEXEC));
	return r;
}

static int mount_fuse(const struct keeper *k, const struct call *c, const char *path)
{
	uint32_t session = (uint32_t)c->out[0];
	char options[160];

	snprintf(options, sizeof(options),
		 "fd=%u,rootmode=40000,user_id=%u,group_id=%u,default_permissions,max_read=%d",
		 session, k->uid, k->gid, MOUNTS_MAX_READ);
	if (mount(MOUNTS_SOURCE, path, "fuse." MOUNTS_SOURCE,
		  MS_NOSUID | MS_NODEV | MS_RDONLY | MS_NOATIME, options) < 0)
		return -errno;
	for (size_t i = 1; i < c->n_out; i++)
		if (ioctl(c->out[i], FUSE_CLONE, &session) < 0)
			return -errno;
	return 0;
}

int privop_slot(struct keeper *k, struct call *c)
{
	const struct privop *a = c->a;
	struct slot *slot = slot_get(k, a);
	_cleanup_(fd_closep) int target = -1;
	char path[32];
	int r;

	if (!k->uid || !slot || a->n[1] < 1 || a->n[1] > PRIVOP_MAX_FDS)
		return -EINVAL;
	r = target = open_target(c, 0711, path);
	r = r < 0 ? r : check_is_free(c, target);
	if (r == 0 && slot->fd >= 0) /* it belongs to a mount that the user has unmounted */
		r = privop_detach(k, c);
	if (r < 0)
		return r;
	r = open_fuse(c, (size_t)a->n[1]) ?: mount_fuse(k, c, path);
	if (r == 0)
		slot_open(slot, c);
	else
		(void)detach_topmost(c->dir, c->name);
	while (r < 0 && c->n_out)
		fd_closep(&c->out[--c->n_out]);
	return r;
}

/* Unmounting also removes the mounts that the user has made inside. The kernel may send a last
 * request to the server (SETATTR, from its cache). */
static int detach(struct keeper *k, struct call *c)
{
	int r;

	do
		r = detach_topmost(c->dir, c->name);
	while (r == 0 && !c->a->n[2]);
	return r == -EINVAL || r == -ENOENT ? 0 : r;
}

/* Attack: our descriptor is the last reference to a file system that the child or the user has
 * unmounted. We close it nevertheless, because otherwise the mount and its server would stay. */
int privop_detach(struct keeper *k, struct call *c)
{
	if (c->a->dir < PRIVOP_DIR_FREE)
		return -EPERM;
	c->slot = slot_get(k, c->a);
	return get_id_at(c->dir, c->name) == -ENOENT ? 0 : child_do(k, c, detach);
}

/* Returns true if the path is in the directory of a job or of kept data. A job's manager can use
 * only directories of jobs that it has opened, and of its user. */
static bool is_of_jobs(const struct keeper *k, const char *path)
{
	const bool kept = strncmp(path, TIER_NAME_KEEP, strlen(TIER_NAME_KEEP)) == 0;
	uint32_t number = 0, dir = PRIVOP_DIR_FREE;

	if (sscanf(path, kept ? TIER_NAME_KEEP "%u" : TIER_NAME_JOB "%u", &number) != 1)
		return false;
	while (dir < PRIVOP_N_DIRS && (k->jobs[dir] != number || privop_is_others(k, dir)))
		dir++;
	return !k->job || (kept ? privop_is_users(k, number, &(gid_t){ 0 }) : dir < PRIVOP_N_DIRS);
}

int privop_detach_below(struct keeper *k, struct call *c)
{
	const bool tier = c->a->dir == PRIVOP_DIR_TIER && is_of_jobs(k, c->a->text);
	_cleanup_(fd_closep) int top = tier ? -1 : privop_open_memory(c), parent = -1;
	char here[] = ".", *path = c->a->text, *name = strrchr(path, '/');

	/* with "..", the path could leave the directory */
	if ((!tier && top < 0) || root_path_climbs(c->a->text))
		return -EPERM;
	if (name)
		*name++ = '\0';
	parent = privop_open_below(tier ? c->dir : top, name ? path : here);
	return parent < 0 ? parent : detach_topmost(parent, name ? name : path);
}
