#include "daemon/steward/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/mountinfo.h"
#include "daemon/steward/acts.h"
#include "daemon/steward/hand.h"
#include "daemon/steward/jobdir.h"

#define FILL_MS 5000
#define NAME_SIZE 16
#define STATX_FLAGS (AT_EMPTY_PATH | AT_STATX_DONT_SYNC) /* no server of a user's is asked */

static const char *name_to_string(char buf[static NAME_SIZE], uint32_t name)
{
	if (name == MOUNTS_MEMORY)
		return RUNDIR_MEMORY;
	snprintf(buf, NAME_SIZE, RUNDIR_MOUNTS "/%u", name);
	return buf;
}

/* An act on what is mounted there. */
static int do_mounted(enum act_kind kind, const struct jobdir *d, uint32_t name, int64_t n2)
{
	return name == MOUNTS_MEMORY ? acts_do_name(kind, d->dir, ACT_NAME_MEMORY, 0, 0, n2)
				     : acts_do_name(kind, d->dir, ACT_NAME_SLOT, name, 0, n2);
}

int mounts_memory(const struct jobdir *d, uid_t uid, gid_t gid, uint64_t size, uint64_t inodes,
		  struct error *err)
{
	const struct hand fill = { .argv = { "stage-hand", "fill", NULL }, .uid = uid, .gid = gid,
				   .dir = d->fd, .deadline_ms = clock_ms() + FILL_MS };
	int r = acts_do_name(ACT_MEMORY, d->dir, ACT_NAME_MEMORY, (int64_t)size, (int64_t)inodes, 0);

	if (r < 0)
		return error_errno(err, -r, "mount the job's tmpfs");
	r = hand_do(&fill);
	return r < 0 ? error_errno(err, -r, "make directories in the job's tmpfs") : 0;
}

int mounts_resize_memory(const struct jobdir *d, uint64_t size)
{
	return acts_do_name(ACT_RESIZE, d->dir, ACT_NAME_MEMORY, (int64_t)size, 0, 0);
}

int mounts_slot(const struct jobdir *d, uint32_t slot, int *fds, size_t n_fds, struct error *err)
{
	struct act a = { .kind = ACT_SLOT, .dir = d->dir, .name = ACT_NAME_SLOT, .n = { slot, (int64_t)n_fds } };
	size_t n = n_fds;
	int r = acts_do(&a, NULL, 0, fds, &n);

	if (r == 0 && n == n_fds)
		return 0;
	while (r == 0 && n)
		fd_closep(&fds[--n]);
	return error_errno(err, r < 0 ? -r : EPROTO, "mount a FUSE slot, by /dev/fuse");
}

int mounts_detach(const struct jobdir *d, uint32_t name, struct error *err)
{
	char buf[NAME_SIZE];
	int r = do_mounted(ACT_DETACH, d, name, 0);

	return r < 0 ? error_errno(err, -r, "unmount %s", name_to_string(buf, name)) : 0;
}

/* The outermost comes first in the kernel's table and takes with it what is mounted in it. */
void mounts_detach_in(int dirfd, const char *name)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct act a = { .kind = ACT_DETACH_BELOW, .dir = ACT_DIR_TIER };
	char top[PATH_MAX];
	struct mountinfo m;
	size_t size = 0;
	int n = mountinfo_path_at(top, dirfd, name);

	while (f && n > 0 && getline(&line, &size, f) > 0)
		if (mountinfo_parse(&m, line) == 0 && !strncmp(m.target, top, (size_t)n) && strchr("/.", m.target[n])) {
			snprintf(a.text, sizeof(a.text), "%s", m.target + (size_t)n - strlen(name));
			(void)acts_do(&a, NULL, 0, NULL, NULL);
		}
}

int mounts_abort(const struct jobdir *d, uint32_t slot)
{
	char buf[NAME_SIZE];
	struct mountinfo m;

	/* Looked up now: a minor may belong to another by the time the mount is gone. */
	if (mountinfo_find_at(&m, d->fd, name_to_string(buf, slot)) < 0)
		return -ENOENT;
	return acts_do_numbers(ACT_ABORT, m.minor, 0, 0);
}

int mounts_open_memory(const struct jobdir *d, struct statx *st)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct mountinfo m;
	int r;

	for (;;) {
		_cleanup_(fd_closep) int fd = openat(d->fd, RUNDIR_MEMORY, flags);

		r = fd < 0 ? -errno : mountinfo_find_at(&m, d->fd, RUNDIR_MEMORY);
		if (r == 0 && strcmp(m.type, "tmpfs") != 0)
			r = do_mounted(ACT_DETACH, d, MOUNTS_MEMORY, 1);
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

int mounts_repeat(const struct jobdir *d, uint32_t name, const char *ns_path, struct error *err)
{
	struct act a = { .kind = ACT_REPEAT, .dir = d->dir,
			 .name = name == MOUNTS_MEMORY ? ACT_NAME_MEMORY : ACT_NAME_SLOT, .n = { name } };
	char buf[NAME_SIZE];
	int r = snprintf(a.text, sizeof(a.text), "%s", ns_path) >= PATH_MAX ? -ENAMETOOLONG
									    : acts_do(&a, NULL, 0, NULL, NULL);

	return r < 0 ? error_errno(err, -r, "mount %s in %s", name_to_string(buf, name), ns_path) : 0;
}
