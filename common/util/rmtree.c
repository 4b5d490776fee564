/*
 * A constant number of descriptors and no recursion, whatever the depth: directories below the
 * first level are moved up into the root of the tree before they are emptied, so every directory is
 * emptied when it stands directly beneath the root. A tree of depth d costs d renames. (Recursing
 * with a descriptor a level fails at RLIMIT_NOFILE, and a user can make a tree of 10^5 levels.)
 *
 * Nothing follows a link: names are unlinked, directories opened with O_NOFOLLOW and compared by
 * device with the root, so a mount inside is left standing.
 */
#include "common/util/rmtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"

struct rmtree {
	int root_fd;
	dev_t dev;
	const struct rmtree_limits *limits;
	uint64_t n_hoisted;
	uint64_t n_steps;
	bool progress; /* something was removed or moved in this pass */
	uint64_t n_failed;
	int failure; /* first -errno in this pass */
	char failed[256];
};

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static void note_failure(struct rmtree *t, int code, const char *name)
{
	t->n_failed++;
	if (t->failure)
		return;
	t->failure = code;
	snprintf(t->failed, sizeof(t->failed), "%s", name);
}

static bool is_late(struct rmtree *t)
{
	if (!t->limits || !t->limits->deadline_ms || ++t->n_steps % 256)
		return false;
	return clock_ms() >= t->limits->deadline_ms;
}

/* Uses a descriptor: the name may have become a link, which fchmodat() would follow. */
static int open_up(int dirfd, const char *name)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[32];

	fd = openat(dirfd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0 || chmod(path, 0700) < 0 ? -errno : 0;
}

/* Opens a directory on the device of the root. If its mode denies access to its owner, changes the
 * mode first. */
static int open_dir(struct rmtree *t, int dirfd, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
	struct stat st;
	int fd, r;

	fd = openat(dirfd, name, flags);
	r = fd < 0 ? -errno : 0;
	if (r == -EACCES) {
		r = open_up(dirfd, name);
		fd = r < 0 ? -1 : openat(dirfd, name, flags);
		if (r == 0 && fd < 0)
			r = -errno;
	}
	if (r < 0)
		return r;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && st.st_dev != t->dev)
		r = -EXDEV;
	if (r == 0 && (st.st_mode & 0700) != 0700 && fchmod(fd, 0700) < 0)
		r = -errno;
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

/* Moves a directory up into the root. The directory must be writable, because its ".." changes. */
static int hoist(struct rmtree *t, int dirfd, const char *name)
{
	char to[40];
	int r, fd;

	for (int tries = 0; tries < 16; tries++) {
		snprintf(to, sizeof(to), ".rm-%llu", (unsigned long long)t->n_hoisted++);
		if (renameat(dirfd, name, t->root_fd, to) == 0)
			return 0;
		r = -errno;
		if (r == -EACCES) {
			fd = open_dir(t, dirfd, name);
			if (fd < 0)
				return fd;
			close(fd);
			continue;
		}
		if (r != -EEXIST && r != -ENOTEMPTY && r != -ENOTDIR && r != -EISDIR)
			return r;
	}
	return r;
}

/* Removes a name. Returns 0, or -errno: -ENOTEMPTY for a directory that is not empty. */
static int remove_name(int dirfd, const struct dirent *e)
{
	if (e->d_type != DT_DIR) {
		if (unlinkat(dirfd, e->d_name, 0) == 0 || errno == ENOENT)
			return 0;
		if (errno != EISDIR)
			return -errno;
	}
	if (unlinkat(dirfd, e->d_name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return errno == EEXIST ? -ENOTEMPTY : -errno;
}

/* Calls fn for each name in the directory fd; closes fd. Returns -ETIMEDOUT after the deadline. */
static int for_each_name(struct rmtree *t, int fd,
			 void (*fn)(struct rmtree *t, int dirfd, const struct dirent *e))
{
	_cleanup_(dir_closep) DIR *dir = fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		int r = -errno;

		close(fd);
		return r;
	}
	while ((errno = 0, e = readdir(dir))) {
		if (is_dots(e->d_name))
			continue;
		if (is_late(t))
			return -ETIMEDOUT;
		fn(t, dirfd(dir), e);
	}
	return -errno;
}

/* Removes a name in a directory of the first level, or moves it up. */
static void empty_second_level(struct rmtree *t, int dirfd, const struct dirent *e)
{
	int r = remove_name(dirfd, e);

	if (r == -ENOTEMPTY || (r == -EACCES && e->d_type == DT_DIR))
		r = hoist(t, dirfd, e->d_name);
	if (r < 0)
		note_failure(t, r, e->d_name);
	else
		t->progress = true;
}

static void empty_first_level(struct rmtree *t, int dirfd, const struct dirent *e)
{
	uint64_t n_failed = t->n_failed;
	int r = remove_name(dirfd, e);
	int fd;

	if (r == -ENOTEMPTY || (r == -EACCES && e->d_type == DT_DIR)) {
		fd = open_dir(t, dirfd, e->d_name);
		r = fd < 0 ? fd : for_each_name(t, fd, empty_second_level);
		if (r == 0 && unlinkat(dirfd, e->d_name, AT_REMOVEDIR) < 0)
			r = errno == ENOTEMPTY || errno == EEXIST ? 0 : -errno;
		if (r == 0 && t->n_failed > n_failed)
			return; /* the directory stays because of an entry that cannot be removed:
				 * no progress */
	}
	if (r < 0)
		note_failure(t, r, e->d_name);
	else
		t->progress = true;
}

static int is_empty(int fd, bool *emptyp)
{
	_cleanup_(dir_closep) DIR *dir = NULL;
	struct dirent *e;
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		fd_closep(&copy);
		return -errno;
	}
	while ((errno = 0, e = readdir(dir)) && is_dots(e->d_name))
		;
	*emptyp = !e;
	return e ? 0 : -errno;
}

/* Repeats passes until nothing is left, or until a pass makes no progress. */
static int empty_root(struct rmtree *t)
{
	bool empty = false;
	int fd, r;

	for (;;) {
		r = is_empty(t->root_fd, &empty);
		if (r < 0 || empty)
			return r;
		t->progress = false;
		t->failure = 0;
		fd = openat(t->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : for_each_name(t, fd, empty_first_level);
		if (r < 0)
			return r;
		if (t->limits && t->limits->deadline_ms && clock_ms() >= t->limits->deadline_ms)
			return -ETIMEDOUT;
		if (t->failure && !t->progress)
			return t->failure;
	}
}

int rmtree_empty(int dirfd, const struct rmtree_limits *limits, struct error *err)
{
	struct rmtree t = { .root_fd = dirfd, .limits = limits };
	struct stat st;
	int r;

	if (fstat(dirfd, &st) < 0)
		return error_errno(err, errno, "empty a directory");
	t.dev = st.st_dev;
	r = empty_root(&t);
	return r < 0 ? error_errno(err, -r, "remove %s", t.failed[0] ? t.failed : ".") : 0;
}

int rmtree_at(int dirfd, const char *name, const struct rmtree_limits *limits, struct error *err)
{
	struct rmtree t = { .root_fd = -1, .limits = limits };
	_cleanup_(fd_closep) int fd = -1;
	struct stat parent;
	struct statx st;
	int r;

	if (!*name || is_dots(name) || strchr(name, '/'))
		return error_set(err, EINVAL, "remove '%s': not a name in a directory", name);
	/* Does not ask the server of a file system that is mounted there. */
	if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "remove %s", name);
	if (!S_ISDIR(st.stx_mode)) {
		if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
			return error_errno(err, errno, "remove %s", name);
		return 0;
	}
	if (fstat(dirfd, &parent) < 0)
		return error_errno(err, errno, "remove %s", name);
	t.dev = parent.st_dev;
	if (makedev(st.stx_dev_major, st.stx_dev_minor) != t.dev)
		return error_errno(err, EXDEV, "remove %s", name);
	fd = t.root_fd = open_dir(&t, dirfd, name);
	if (fd < 0)
		return error_errno(err, -fd, "remove %s", name);
	r = empty_root(&t);
	if (r < 0)
		return error_errno(err, -r, "remove %s%s%s", name, t.failed[0] ? ": " : "",
				   t.failed);
	if (limits && limits->keep_root)
		return 0;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return error_errno(err, errno, "remove %s", name);
	return 0;
}
