#include "daemon/keeper/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/mountinfo.h"
#include "common/rundir.h"
#include "daemon/keeper/hand.h"

#define MOUNTS_SOURCE "stage-data"
#define FILL_MS 5000
#define MOUNTS_MAX_READ (1024 * 1024)
#define STATX_FLAGS (AT_EMPTY_PATH | AT_STATX_DONT_SYNC) /* no server of a user's is asked */
#define FUSE_CLONE _IOR(229, 0, uint32_t) /* FUSE_DEV_IOC_CLONE */

void mounts_slot_name(char buf[static MOUNTS_SLOT_SIZE], unsigned slot)
{
	snprintf(buf, MOUNTS_SLOT_SIZE, RUNDIR_MOUNTS "/%u", slot % RUNDIR_MAX_SLOTS);
}

static void fd_path(char buf[static 32], int fd)
{
	snprintf(buf, 32, "/proc/self/fd/%d", fd);
}

/* O_PATH asks nothing of the file system that is mounted there. */
static int open_target(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int mounts_memory(int dirfd, const struct mounts_memory *m, struct error *err)
{
	static const char *const huge[] = { ",huge=within_size", "" };
	_cleanup_(fd_closep) int target = -1;
	const struct hand fill = { .argv = { "stage-hand", "fill", NULL }, .uid = m->uid,
				   .gid = m->gid, .dir = dirfd, .deadline_ms = clock_ms() + FILL_MS };
	char path[32], options[128];
	int r = -EINVAL;

	/* What is looked for in it when the tmpfs is gone shall not be there, rather than refused. */
	if (mkdirat(dirfd, RUNDIR_MEMORY, 0711) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", RUNDIR_MEMORY);
	target = open_target(dirfd, RUNDIR_MEMORY);
	if (target < 0)
		return error_errno(err, -target, "open %s", RUNDIR_MEMORY);
	fd_path(path, target);
	for (size_t i = 0; r == -EINVAL && i < ARRAY_SIZE(huge); i++) {
		snprintf(options, sizeof(options),
			 "mode=0700,uid=%u,gid=%u,size=%llu,nr_inodes=%llu%s", m->uid, m->gid,
			 (unsigned long long)m->size, (unsigned long long)m->inodes, huge[i]);
		r = mount(MOUNTS_SOURCE, path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
	}
	if (r < 0)
		return error_errno(err, -r, "mount the job's tmpfs");
	r = hand_do(&fill);
	return r < 0 ? error_errno(err, -r, "make directories in the job's tmpfs") : 0;
}

int mounts_resize_memory(int dirfd, uint64_t size)
{
	_cleanup_(fd_closep) int target = open_target(dirfd, RUNDIR_MEMORY);
	char path[32], options[32];

	if (target < 0)
		return target;
	fd_path(path, target);
	snprintf(options, sizeof(options), "size=%llu", (unsigned long long)size);
	return mount(NULL, path, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

/* A descriptor each for the server's threads: then they don't share a queue lock. */
static int open_fuse(int *fds, size_t n_fds, struct error *err)
{
	for (size_t i = 0; i < n_fds; i++) {
		fds[i] = open("/dev/fuse", O_RDWR | O_CLOEXEC);
		if (fds[i] < 0)
			return error_errno(err, errno, "open /dev/fuse");
	}
	return 0;
}

static int clone_fuse(const int *fds, size_t n_fds, struct error *err)
{
	uint32_t session = (uint32_t)fds[0];

	for (size_t i = 1; i < n_fds; i++)
		if (ioctl(fds[i], FUSE_CLONE, &session) < 0)
			return error_errno(err, errno, "clone /dev/fuse");
	return 0;
}

static int mount_fuse(int target, int fd, uid_t uid, gid_t gid, struct error *err)
{
	char path[32], options[160];

	fd_path(path, target);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,default_permissions,max_read=%d", fd,
		 (unsigned)uid, (unsigned)gid, MOUNTS_MAX_READ);
	if (mount(MOUNTS_SOURCE, path, "fuse." MOUNTS_SOURCE,
		  MS_NOSUID | MS_NODEV | MS_RDONLY | MS_NOATIME, options) < 0)
		return error_errno(err, errno, "mount a FUSE slot");
	return 0;
}

int mounts_slot(int dirfd, unsigned slot, uid_t uid, gid_t gid, int *fds, size_t n_fds,
		struct error *err)
{
	_cleanup_(fd_closep) int target = -1;
	char name[MOUNTS_SLOT_SIZE];
	int r;

	memset(fds, -1, n_fds * sizeof(*fds));
	mounts_slot_name(name, slot);
	if (mkdirat(dirfd, name, 0755) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make %s", name);
	target = open_target(dirfd, name);
	r = target < 0 ? error_errno(err, -target, "open %s", name) : open_fuse(fds, n_fds, err);
	if (r == 0)
		r = mount_fuse(target, fds[0], uid, gid, err);
	if (r == 0) {
		r = clone_fuse(fds, n_fds, err);
		if (r == 0)
			return 0;
		mounts_detach(dirfd, name, NULL);
	}
	for (size_t i = 0; i < n_fds; i++)
		fd_closep(&fds[i]);
	return r;
}

static int detach_topmost(int dirfd, const char *name)
{
	char path[NAME_MAX + 32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dirfd, name);
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

int mounts_detach(int dirfd, const char *name, struct error *err)
{
	int r;

	do
		r = detach_topmost(dirfd, name);
	while (r == 0);
	return r == -EINVAL || r == -ENOENT ? 0 : error_errno(err, -r, "unmount %s", name);
}

/* Name by name: no link is followed. */
static void detach_path(int dirfd, char *path)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, ".", O_PATH | O_CLOEXEC);

	for (char *slash; fd >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		const int parent = fd;

		*slash = '\0';
		fd = open_target(parent, path);
		close(parent);
	}
	if (fd >= 0)
		(void)mounts_detach(fd, path, NULL);
}

/* The outermost comes first in the kernel's table and takes with it what is mounted in it: no server is asked for a
 * name. */
void mounts_detach_in(int dirfd, const char *name)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	char top[PATH_MAX];
	struct mountinfo m;
	size_t size = 0;
	int n = mountinfo_path_at(top, dirfd, name);

	while (f && n > 0 && getline(&line, &size, f) > 0)
		if (mountinfo_parse(&m, line) == 0 && !strncmp(m.target, top, (size_t)n) && strchr("/.", m.target[n]))
			detach_path(dirfd, m.target + (size_t)n - strlen(name));
}

int mounts_open_memory(int dirfd, struct statx *st)
{
	struct mountinfo m;
	int r;

	for (;;) {
		_cleanup_(fd_closep) int fd = open_target(dirfd, RUNDIR_MEMORY);

		r = mountinfo_find_at(&m, dirfd, RUNDIR_MEMORY) ?: fd < 0 ? fd : 0;
		if (r == 0 && strcmp(m.type, "tmpfs") != 0)
			r = detach_topmost(dirfd, RUNDIR_MEMORY);
		/* The user may have mounted and unmounted between the two: what is open has to be
		 * it. */
		else if (r == 0 && statx(fd, "", STATX_FLAGS, STATX_BASIC_STATS, st) < 0)
			r = errno == EACCES ? 0 : -errno;
		else if (r == 0 && st->stx_dev_minor == m.minor)
			return steal_fd(&fd);
		if (r < 0)
			return r;
	}
}
