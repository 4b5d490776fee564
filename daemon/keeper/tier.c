#include "daemon/keeper/tier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/conf.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/parse.h"
#include "common/path.h"
#include "common/rmtree.h"
#include "daemon/keeper/launch.h"
#include "daemon/keeper/proc.h"
#include "daemon/keeper/state.h"

#define TIER_PREFIX "stage-data-"
#define TIER_MAKE_MS 1000
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* Is each directory and link on the way to path root's and writable by nobody else? */
static bool is_roots_way(const char *path)
{
	char prefix[PATH_MAX];
	struct stat st;
	size_t n = 0;

	do {
		n += strcspn(path + n + 1, "/") + 1;
		snprintf(prefix, sizeof(prefix), "%.*s", (int)n, path);
		if (lstat(prefix, &st) < 0 || st.st_uid != 0 ||
		    (!S_ISLNK(st.st_mode) && st.st_mode & 022))
			return false;
	} while (path[n]);
	return true;
}

/* Opens dir if it is root's as written and as resolved, else -EPERM. */
static int open_roots(const char *dir)
{
	_cleanup_(fd_closep) int fd = -1;
	char link[32], real[PATH_MAX];
	ssize_t n;

	if (!is_roots_way(dir))
		return -EPERM;
	fd = open(dir, DIR_FLAGS);
	if (fd < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	if (n <= 0)
		return -EPERM;
	real[n] = '\0';
	return is_roots_way(real) ? steal_fd(&fd) : -EPERM;
}

/* What is done beneath a tier, as root or in a child as the user. */
struct act {
	const struct state_tier *tier;
	uid_t uid;
	gid_t gid;
	int parent;      /* of the tier's directory; -1: opened as the user */
	uint64_t deadline_ms;
	const char *aside; /* to rename to, or NULL */
};

static int open_parent(const struct act *a)
{
	char dir[PATH_MAX];

	snprintf(dir, sizeof(dir), "%s", a->tier->path);
	*strrchr(dir, '/') = '\0';
	return a->parent >= 0 ? a->parent : open(*dir ? dir : "/", DIR_FLAGS);
}

static int become(const struct act *a)
{
	return launch_become(a->uid, a->gid, &a->gid, 1);
}

static int make(const struct act *a)
{
	int parent = open_parent(a);
	_cleanup_(fd_closep) int fd = -1;
	const char *name = path_base(a->tier->path);

	if (parent < 0)
		return -errno;
	if (a->aside && renameat(parent, name, parent, a->aside) < 0 && errno != ENOENT)
		return -errno;
	if (mkdirat(parent, name, 0700) < 0)
		return -errno;
	fd = openat(parent, name, DIR_FLAGS | O_NOFOLLOW);
	return fd < 0 || fchown(fd, a->uid, a->gid) < 0 ? -errno : 0;
}

static int make_as_user(void *arg)
{
	int r = become(arg);

	return r < 0 ? r : make(arg);
}

static int empty_as_user(void *arg)
{
	const struct act *a = arg;
	const struct rmtree_limits limits = { a->deadline_ms, .keep_root = a->tier->by_root };
	const char *name = path_base(a->tier->path);
	struct stat st;
	int parent, r = become(a);

	if (r < 0)
		return r;
	parent = open_parent(a);
	if (parent < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* Another run's by now? */
	if (st.st_uid != a->uid || (a->tier->inode && st.st_ino != a->tier->inode))
		return 0;
	return rmtree_at(parent, name, &limits, NULL);
}

/* Records in *st a directory that is about to be there. */
static struct state_tier *record(struct state *st, const char *dir, const char *name, bool by_root)
{
	struct state_tier *t = state_add_tier(st);

	if (!t || (size_t)snprintf(t->path, sizeof(t->path), "%s/%s", strcmp(dir, "/") ? dir : "",
				   name) >= sizeof(t->path)) {
		if (t)
			t->path[0] = '\0';
		return NULL;
	}
	t->by_root = by_root;
	t->inode = 0;
	return t;
}

static bool is_recorded(const struct state *st, const char *dir, const char *name)
{
	const size_t n = strlen(dir);

	for (size_t i = 0; i < STATE_MAX_TIERS; i++)
		if (strncmp(st->tiers[i].path, dir, n) == 0 && st->tiers[i].path[n] == '/' &&
		    strcmp(st->tiers[i].path + n + 1, name) == 0)
			return true;
	return false;
}

int tier_make(int dirfd, struct state *st, const char *path, struct error *err)
{
	_cleanup_(fd_closep) int parent = open_roots(path);
	char name[64], aside[96];
	struct state_tier *old, *t;
	struct act a = { .uid = st->uid, .gid = st->gid, .parent = parent, .aside = aside };
	struct stat sb;
	int r;

	if (parent < 0 && parent != -EPERM)
		return error_errno(err, -parent, "open %s", path);
	snprintf(name, sizeof(name), TIER_PREFIX "%u", st->job_id);
	snprintf(aside, sizeof(aside), "%s.%llu", name, (unsigned long long)clock_ms());
	if (is_recorded(st, path, name))
		return 0;
	old = record(st, path, aside, parent >= 0);
	t = old ? record(st, path, name, parent >= 0) : NULL;
	if (!t)
		return error_set(err, ENOSPC, "too many disk tiers");
	r = state_write(dirfd, st);
	if (r < 0)
		return error_errno(err, -r, "record %s", t->path);
	a.tier = t;
	r = parent >= 0 ? make(&a) : proc_run(make_as_user, &a, clock_ms() + TIER_MAKE_MS);
	if (r < 0)
		return error_errno(err, -r, "make %s", t->path);
	if (parent >= 0 && fstatat(parent, name, &sb, AT_SYMLINK_NOFOLLOW) == 0) {
		t->inode = sb.st_ino;
		r = state_write(dirfd, st);
	}
	return r < 0 ? error_errno(err, -r, "record %s", t->path) : 0;
}

static int remove_at(int parent, const struct state_tier *t, uid_t uid, gid_t gid,
		     uint64_t deadline_ms, struct error *err)
{
	struct act a = { .tier = t, .uid = uid, .gid = gid, .parent = parent,
			 .deadline_ms = deadline_ms };
	int r = proc_run(empty_as_user, &a, deadline_ms + 200);

	if (r < 0)
		return error_errno(err, -r, "empty %s", t->path);
	if (parent >= 0 && unlinkat(parent, path_base(t->path), AT_REMOVEDIR) < 0 &&
	    errno != ENOENT && errno != ENOTEMPTY)
		return error_errno(err, errno, "remove %s", t->path);
	return 0;
}

int tier_remove(const struct state_tier *t, uid_t uid, gid_t gid, uint64_t deadline_ms,
		struct error *err)
{
	_cleanup_(fd_closep) int parent = -1;
	char dir[PATH_MAX];

	if (!t->by_root)
		return remove_at(-1, t, uid, gid, deadline_ms, err);
	snprintf(dir, sizeof(dir), "%s", t->path);
	*strrchr(dir, '/') = '\0';
	parent = open_roots(*dir ? dir : "/");
	if (parent < 0)
		return parent == -ENOENT ? 0 : error_errno(err, -parent, "open %s", dir);
	return remove_at(parent, t, uid, gid, deadline_ms, err);
}

int tier_parse_name(const char *name, uint32_t *job_idp)
{
	char digits[11];
	size_t n;

	if (strncmp(name, TIER_PREFIX, strlen(TIER_PREFIX)) != 0)
		return -EINVAL;
	name += strlen(TIER_PREFIX);
	n = strcspn(name, ".");
	if (n >= sizeof(digits) || (name[n] && (!name[n + 1] || name[n + 1 + strspn(name + n + 1, "0123456789")])))
		return -EINVAL;
	snprintf(digits, sizeof(digits), "%.*s", (int)n, name);
	return parse_uint32(digits, job_idp) < 0 ? -EINVAL : 0;
}

static void sweep_one(const char *path, int base_fd, uint64_t deadline_ms)
{
	int parent = open_roots(path), fd = parent < 0 ? -1 : fcntl(parent, F_DUPFD_CLOEXEC, 3);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct state_tier t = { .by_root = true };
	struct error err = ERROR_INIT;
	struct dirent *e;
	struct stat st;
	uint32_t job_id;
	char job[16];

	while (dir && (e = readdir(dir))) {
		if (tier_parse_name(e->d_name, &job_id) < 0)
			continue;
		snprintf(job, sizeof(job), "%u", job_id);
		if (faccessat(base_fd, job, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		    fstatat(parent, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid == 0)
			continue;
		snprintf(t.path, sizeof(t.path), "%s/%s", path, e->d_name);
		if (remove_at(parent, &t, st.st_uid, st.st_gid, deadline_ms, &err) == 0)
			log_info("removed %s, which job %u left", t.path, job_id);
		else
			log_warning("%s", err.text);
	}
	fd_closep(&parent);
}

void tier_sweep(const struct conf *conf, int base_fd, uint64_t deadline_ms)
{
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (conf->tiers[i].kind == CONF_TIER_DISK && !strchr(conf->tiers[i].path, '%'))
			sweep_one(conf->tiers[i].path, base_fd, deadline_ms);
}
