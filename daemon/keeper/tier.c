/*
 * All that a job has in a tier is named stage-data-<job>, what an earlier run has left with a
 * number behind it: so a tier's path is record enough, and one walk serves clean-up and sweep.
 */
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

int tier_parse_name(const char *name, uint32_t *job_idp)
{
	char digits[11] = "";
	int n = 0;

	if (sscanf(name, TIER_PREFIX "%10[0-9]%n.%*[0-9]%n", digits, &n, &n) != 1 || name[n])
		return -EINVAL;
	return parse_uint32(digits, job_idp) < 0 ? -EINVAL : 0;
}

/* What is done in a tier, by root or in a child as the user. */
struct act {
	const struct state_tier *tier;
	uint32_t job_id;
	uid_t uid;
	gid_t gid;
	int dir; /* of the tier, opened by root; -1: to be opened as the user */
	uint64_t deadline_ms;
};

static int set_aside(const struct act *a)
{
	char name[32], aside[64];

	snprintf(name, sizeof(name), TIER_PREFIX "%u", a->job_id);
	snprintf(aside, sizeof(aside), "%s.%llu", name, (unsigned long long)clock_ms());
	return renameat(a->dir, name, a->dir, aside) < 0 && errno != ENOENT ? -errno : 0;
}

static int make(const struct act *a)
{
	_cleanup_(fd_closep) int fd = -1;
	char name[32];
	int r = set_aside(a);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), TIER_PREFIX "%u", a->job_id);
	if (mkdirat(a->dir, name, 0700) < 0)
		return -errno;
	fd = openat(a->dir, name, DIR_FLAGS | O_NOFOLLOW);
	return fd < 0 || fchown(fd, a->uid, a->gid) < 0 ? -errno : 0;
}

/* Becomes the user, for whom the tier is opened where root didn't. */
static int enter_as_user(struct act *a)
{
	int r = launch_become(a->uid, a->gid, &a->gid, 1);

	if (r < 0 || a->dir >= 0)
		return r;
	a->dir = open(a->tier->path, DIR_FLAGS);
	return a->dir < 0 ? -errno : 0;
}

static int make_as_user(void *arg)
{
	int r = enter_as_user(arg);

	return r < 0 ? r : make(arg);
}

static int set_aside_as_user(void *arg)
{
	int r = enter_as_user(arg);

	return r == -ENOENT ? 0 : r < 0 ? r : set_aside(arg);
}

/* Calls fn for each name of what was set aside and keeps the first error. */
static int for_each_name(const struct act *a, int (*fn)(const struct act *a, const char *name))
{
	int fd = fcntl(a->dir, F_DUPFD_CLOEXEC, 3), r, result = 0;
	_cleanup_(dir_closep) DIR *dir = fdopendir(fd);
	struct dirent *e;
	uint32_t job_id;

	if (!dir)
		return -errno;
	rewinddir(dir);
	while ((e = readdir(dir))) {
		if (tier_parse_name(e->d_name, &job_id) < 0 || job_id != a->job_id ||
		    !strchr(e->d_name, '.'))
			continue;
		r = fn(a, e->d_name);
		result = result ? result : r;
	}
	return result;
}

static int empty(const struct act *a, const char *name)
{
	const struct rmtree_limits limits = { a->deadline_ms, .keep_root = !a->tier->as_user };
	struct stat st;

	if (fstatat(a->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != a->uid)
		return 0;
	return rmtree_at(a->dir, name, &limits, NULL);
}

static int empty_as_user(void *arg)
{
	int r = enter_as_user(arg);

	return r == -ENOENT ? 0 : r < 0 ? r : for_each_name(arg, empty);
}

/* What is not empty is another user's, of an earlier job with the same id. */
static int remove_empty(const struct act *a, const char *name)
{
	return unlinkat(a->dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY
		       ? 0
		       : -errno;
}

int tier_make(int dirfd, struct state *st, const char *path, bool by_site, struct error *err)
{
	_cleanup_(fd_closep) int dir = by_site ? -EPERM : open_roots(path);
	struct state_tier *t = state_find_tier(st, path) ?: state_find_tier(st, "");
	struct act a = {
		.tier = t, .job_id = st->job_id, .uid = st->uid, .gid = st->gid, .dir = dir
	};
	int r;

	if (t && t->made)
		return 0;
	if (dir < 0 && dir != -EPERM)
		return error_errno(err, -dir, "open %s", path);
	if (!t || strchr(path, '\n') || strlen(path) >= sizeof(t->path))
		return error_set(err, ENOSPC, "too many disk tiers");
	strcpy(t->path, path);
	t->as_user = dir < 0;
	r = state_write(dirfd, st);
	if (r == 0)
		r = t->as_user ? proc_run(make_as_user, &a, clock_ms() + TIER_MAKE_MS) : make(&a);
	t->made = r == 0;
	if (by_site && r == -ENOENT)
		return error_set(err, ENOENT, "%s is not there: the site makes it (Provided=site)",
				 path);
	return r < 0 ? error_errno(err, -r, "make the job's directory in %s", path) : 0;
}

int tier_set_aside(const struct state_tier *t, uint32_t job_id, uid_t uid, gid_t gid,
		   uint64_t deadline_ms, struct error *err)
{
	_cleanup_(fd_closep) int dir = t->as_user ? -1 : open_roots(t->path);
	struct act a = { t, job_id, uid, gid, dir, deadline_ms };
	int r;

	if (dir < 0 && !t->as_user)
		return dir == -ENOENT ? 0 : error_errno(err, -dir, "open %s", t->path);
	r = t->as_user ? proc_run(set_aside_as_user, &a, clock_ms() + TIER_MAKE_MS) : set_aside(&a);
	return r < 0 ? error_errno(err, -r, "move what the job has in %s", t->path) : 0;
}

int tier_remove(const struct state_tier *t, uint32_t job_id, uid_t uid, gid_t gid,
		uint64_t deadline_ms, struct error *err)
{
	_cleanup_(fd_closep) int dir = t->as_user ? -1 : open_roots(t->path);
	struct act a = { t, job_id, uid, gid, dir, deadline_ms };
	int r;

	if (dir < 0 && !t->as_user)
		return dir == -ENOENT ? 0 : error_errno(err, -dir, "open %s", t->path);
	r = proc_run(empty_as_user, &a, deadline_ms + 200);
	if (r == 0 && !t->as_user)
		r = for_each_name(&a, remove_empty);
	return r < 0 ? error_errno(err, -r, "remove what the job has in %s", t->path) : 0;
}

static void sweep_one(const struct conf_tier *tier, int base_fd, uint64_t deadline_ms)
{
	struct state_tier t = { .as_user = false };
	int fd = open_roots(tier->path);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct error err = ERROR_INIT;
	struct dirent *e;
	struct stat st;
	uint32_t job_id;
	char job[16];

	snprintf(t.path, sizeof(t.path), "%s", tier->path);
	while (dir && (e = readdir(dir))) {
		if (tier_parse_name(e->d_name, &job_id) < 0)
			continue;
		snprintf(job, sizeof(job), "%u", job_id);
		if (faccessat(base_fd, job, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid == 0)
			continue;
		if (tier_set_aside(&t, job_id, st.st_uid, st.st_gid, deadline_ms, &err) == 0 &&
		    tier_remove(&t, job_id, st.st_uid, st.st_gid, deadline_ms, &err) == 0)
			log_info("removed what job %u left in %s", job_id, t.path);
		else
			log_warning("%s", err.text);
	}
}

void tier_sweep(const struct conf *conf, int base_fd, uint64_t deadline_ms)
{
	for (size_t i = 0; i < conf->n_tiers; i++)
		if (conf->tiers[i].kind == CONF_TIER_DISK && !conf->tiers[i].provided_by_site &&
		    !strchr(conf->tiers[i].path, '%'))
			sweep_one(&conf->tiers[i], base_fd, deadline_ms);
}
