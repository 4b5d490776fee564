#include "daemon/manager/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/protocol/packet.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/mountinfo.h"
#include "common/util/path.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/jobdir.h"

#define NAME_SIZE 16
#define MAX_ROUNDS 8
#define MAX_IN_MEMORY (2 * RUNDIR_MAX_SLOTS) /* a job has at most half as many datasets */
#define MAX_LATE 4 /* root's children that a user's server or lock may delay for ever */
#define STATX_FLAGS (AT_EMPTY_PATH | AT_STATX_DONT_SYNC) /* sends no request to a user's server */

struct targets {
	char **paths; /* mount points */
	size_t n;
};

static const char *name_to_string(char buf[static NAME_SIZE], uint32_t name)
{
	if (name == MOUNTS_MEMORY)
		return RUNDIR_MEMORY;
	snprintf(buf, NAME_SIZE, RUNDIR_MOUNTS "/%u", name);
	return buf;
}

/* Does a privileged operation on the tmpfs or a slot. */
static int do_mounted(enum privop_kind kind, const struct jobdir *d, uint32_t name, int64_t n2)
{
	return name == MOUNTS_MEMORY ? privops_do_name(kind, d->dir, PRIVOP_NAME_MEMORY, 0, 0, n2)
				     : privops_do_name(kind, d->dir, PRIVOP_NAME_SLOT, name, 0, n2);
}

int mounts_memory(const struct jobdir *d, uint64_t size, uint64_t inodes, struct error *err)
{
	int r = privops_do_name(PRIVOP_MEMORY, d->dir, PRIVOP_NAME_MEMORY, (int64_t)size,
				(int64_t)inodes, 0);

	return r < 0 ? error_errno(err, -r, "mount the job's tmpfs, or make directories in it") : 0;
}

int mounts_resize_memory(const struct jobdir *d, uint64_t size)
{
	return privops_do_name(PRIVOP_RESIZE, d->dir, PRIVOP_NAME_MEMORY, (int64_t)size, 0, 0);
}

int mounts_slot(const struct jobdir *d, uint32_t slot, int *fds, size_t n_fds, struct error *err)
{
	struct privop a = { .kind = PRIVOP_SLOT,
			    .dir = d->dir,
			    .name = PRIVOP_NAME_SLOT,
			    .n = { slot, (int64_t)n_fds } };
	size_t n = n_fds;
	int r = privops_do(&a, fds, &n);

	if (r == 0 && n == n_fds)
		return 0;
	while (r == 0 && n)
		fd_closep(&fds[--n]);
	return error_errno(err, r < 0 ? -r : EPROTO, "mount a FUSE slot, by /dev/fuse");
}

int mounts_detach(const struct jobdir *d, uint32_t name, struct error *err)
{
	char buf[NAME_SIZE];
	int r = do_mounted(PRIVOP_DETACH, d, name, 0);

	return r < 0 ? error_errno(err, -r, "unmount %s", name_to_string(buf, name)) : 0;
}

static void add_target(struct targets *t, const char *path)
{
	char **more = reallocarray(t->paths, t->n + 1, sizeof(*more));

	if (!more)
		return; /* the next round finds this mount again */
	t->paths = more;
	t->paths[t->n] = strdup(path);
	t->n += t->paths[t->n] != NULL;
}

static void targets_deinit(struct targets *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->paths[i]);
	free(t->paths);
}

/* Finds the mounts on top, below it, and on names that begin with top and a dot. */
static void find_targets(struct targets *t, const char *top)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	const size_t n = strlen(top);
	struct mountinfo m;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0)
		if (mountinfo_parse(&m, line) == 0 && strncmp(m.target, top, n) == 0 &&
		    strchr("/.", m.target[n]))
			add_target(t, m.target);
}

static int compare_lengths(const void *a, const void *b)
{
	const size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);

	return (x > y) - (x < y);
}

/* Detaches the mounts. Returns how many were detached. A mount inside another one is detached with
 * it. After -ETIMEDOUT the loop ends, because root would also wait in vain for the next mount. */
static size_t detach_targets(const struct targets *t, size_t n_above)
{
	struct privop a = { .kind = PRIVOP_DETACH_BELOW, .dir = PRIVOP_DIR_TIER };
	size_t n = 0;
	int r = 0;

	qsort(t->paths, t->n, sizeof(*t->paths), compare_lengths);
	for (size_t i = 0; i < t->n && r != -ETIMEDOUT; i++) {
		snprintf(a.text, sizeof(a.text), "%s", t->paths[i] + n_above);
		r = privops_do(&a, NULL, NULL);
		n += r == 0;
	}
	return n;
}

/*
 * The kernel's table is in the order of mounting, and a user may have mounted on a directory first
 * and on its parent later. A mount that is covered by another one cannot be reached, so the
 * outermost mount, which has the shortest path, is detached first. The user may mount again in
 * between, so there are several rounds, but not without limit.
 */
void mounts_detach_in(int dirfd, const char *name)
{
	char top[PATH_MAX];
	const int n = mountinfo_path_at(top, dirfd, name);
	size_t n_detached = n > 0;

	for (int round = 0; n_detached && round < MAX_ROUNDS; round++) {
		_cleanup_(targets_deinit) struct targets t = { 0 };

		find_targets(&t, top);
		n_detached = t.n ? detach_targets(&t, (size_t)n - strlen(name)) : 0;
	}
}

/* Slurm's plugin job_container/tmpfs binds the job's mount namespace to a file with that name. */
bool mounts_has_namespace(uint32_t job)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mountinfo m;
	char name[32];
	size_t size = 0;

	snprintf(name, sizeof(name), "/%u/.ns", job);
	while (f && getline(&line, &size, f) > 0)
		if (mountinfo_parse(&m, line) == 0 && !strcmp(m.type, "nsfs") &&
		    strstr(m.target, name))
			return true;
	return false;
}

/* Counts the job's tmpfs and all mounts in it, also those that others made. */
static size_t count_in_memory(const struct jobdir *d)
{
	_cleanup_(targets_deinit) struct targets t = { 0 };
	char top[PATH_MAX];

	if (mountinfo_path_at(top, d->fd, RUNDIR_MEMORY) > 0)
		find_targets(&t, top);
	return t.n;
}

/* Sends fd to root's child and waits for its result. A user's server, or a lock that the user
 * holds, may delay the child for ever. */
static int send_source(int sock, int fd)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };
	struct privop a;
	int r = packet_send(sock, "p", 1, &fd, 1, MSG_DONTWAIT);

	if (r < 0)
		return r;
	if (poll(&p, 1, PRIVOP_PLACE_SECONDS * 1000) != 1)
		return -ETIMEDOUT;
	return recv(sock, &a, sizeof(a), MSG_DONTWAIT) == sizeof(a) ? a.r : -ETIMEDOUT;
}

int mounts_place(const struct jobdir *d, const char *name, int fd, bool read_only,
		 const char *ns_path)
{
	struct privop a = {
		.kind = PRIVOP_PLACE, .dir = d->dir, .name = PRIVOP_NAME_MEMORY, .n = { read_only }
	};
	const int n = snprintf(a.text, sizeof(a.text), "%s/%s", path_base(RUNDIR_DATA), name) + 1;
	static unsigned n_late;
	_cleanup_(fd_closep) int sock = -1;
	size_t n_socks = 1;
	int r;

	if ((size_t)n + strlen(ns_path) >= sizeof(a.text))
		return -ENAMETOOLONG;
	if (n_late >= MAX_LATE)
		return -EBUSY;
	/* Attack: in an older mount namespace, the user renames the directory of the mount point,
	 * so that the mount cannot be found by its name. The kernel limits the number of mounts of
	 * a node. */
	if (count_in_memory(d) >= MAX_IN_MEMORY)
		return -EDQUOT;
	strcpy(a.text + n, ns_path);
	r = privops_do(&a, &sock, &n_socks);
	if (r > 0)
		r = send_source(sock, fd);
	n_late += r == -ETIMEDOUT;
	if (r < 0) /* the mount may have been made before the failure */
		(void)mounts_unplace(d, name);
	return r;
}

int mounts_unplace(const struct jobdir *d, const char *name)
{
	int r = 0;

	for (int i = 0; r == 0 && i < MAX_ROUNDS; i++) {
		struct privop a = { .kind = PRIVOP_DETACH_BELOW,
				    .dir = d->dir,
				    .name = PRIVOP_NAME_MEMORY };

		snprintf(a.text, sizeof(a.text), "%s/%s", path_base(RUNDIR_DATA), name);
		r = privops_do(&a, NULL, NULL);
	}
	return r == -EINVAL || r == -ENOENT ? 0 : r;
}

int mounts_abort(const struct jobdir *d, uint32_t slot)
{
	return privops_do_name(PRIVOP_ABORT, d->dir, PRIVOP_NAME_SLOT, slot, 0, 0);
}

int mounts_open_waiting(const struct jobdir *d, uint32_t slot)
{
	struct privop a = {
		.kind = PRIVOP_OPEN_WAITING, .dir = d->dir, .name = PRIVOP_NAME_SLOT, .n = { slot }
	};
	size_t n = 1;
	int fd = -1, r = privops_do(&a, &fd, &n);

	if (r < 0)
		return r;
	return n ? fd : -EPROTO;
}

int mounts_open_memory(const struct jobdir *d, uint64_t deadline_ms)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	struct mountinfo m;
	struct statx st;
	int r;

	for (;;) {
		_cleanup_(fd_closep) int fd = openat(d->fd, RUNDIR_MEMORY, flags);

		r = fd < 0 ? -errno : mountinfo_find_at(&m, d->fd, RUNDIR_MEMORY);
		if (r == 0 && strcmp(m.type, "tmpfs") != 0)
			r = do_mounted(PRIVOP_DETACH, d, MOUNTS_MEMORY, 1);
		/* Somebody may have mounted or unmounted between the two steps, so the open
		 * descriptor is checked. */
		else if (r == 0 && statx(fd, "", STATX_FLAGS, STATX_BASIC_STATS, &st) < 0)
			r = errno == EACCES ? 0 : -errno;
		else if (r == 0 && st.stx_dev_minor == m.minor)
			return steal_fd(&fd);
		if (r < 0)
			return r;
		if (clock_ms() >= deadline_ms)
			return -ETIMEDOUT;
	}
}

int mounts_get_owner(int memory_fd, struct statx *st)
{
	struct statx top;

	if (statx(memory_fd, "", STATX_FLAGS, STATX_BASIC_STATS, &top) < 0 ||
	    statx(memory_fd, path_base(RUNDIR_DATA), AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, st) < 0)
		return -errno;
	/* A file system that the user has mounted there can show any owner. */
	return st->stx_dev_major == top.stx_dev_major && st->stx_dev_minor == top.stx_dev_minor
		       ? 0
		       : -EXDEV;
}

int mounts_repeat(const struct jobdir *d, uint32_t name, const char *ns_path, struct error *err)
{
	struct privop a = { .kind = PRIVOP_REPEAT,
			    .dir = d->dir,
			    .name = name == MOUNTS_MEMORY ? PRIVOP_NAME_MEMORY : PRIVOP_NAME_SLOT,
			    .n = { name } };
	char buf[NAME_SIZE];
	int r = snprintf(a.text, sizeof(a.text), "%s", ns_path) >= PATH_MAX
			? -ENAMETOOLONG
			: privops_do(&a, NULL, NULL);

	return r < 0 ? error_errno(err, -r, "mount %s in %s", name_to_string(buf, name), ns_path)
		     : 0;
}
