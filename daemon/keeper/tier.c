#include "daemon/keeper/tier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/tier-name.h"
#include "daemon/keeper/hand.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/state.h"

#define TIER_MAKE_MS 1000
#define SWEEP_ONE_MS 5000
#define MAX_TRIES 3
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

/* dir: of the tier, opened by root; -1: the user opens it. */
static int do_as_user(const char *what, const struct state *st, const struct state_tier *t, int dir,
		      uint64_t deadline_ms)
{
	char job[16], deadline[24], keep[16];
	const struct hand h = { .argv = { "stage-hand", what, job, dir < 0 ? t->path : "", deadline, keep, NULL },
				.uid = st->uid, .gid = st->gid, .dir = dir,
				.deadline_ms = deadline_ms + 200 };

	snprintf(job, sizeof(job), "%u", st->job_id);
	snprintf(deadline, sizeof(deadline), "%llu", (unsigned long long)deadline_ms);
	snprintf(keep, sizeof(keep), "%u", t->keep_s);
	return hand_do(&h);
}

/* What the user has mounted on what the job has in the tier, or on what he keeps there */
static void detach_mounts(const struct state *st, int dir)
{
	char name[TIER_NAME_SIZE];

	snprintf(name, sizeof(name), TIER_NAME_JOB "%u", st->job_id);
	mounts_detach_in(dir, name);
	snprintf(name, sizeof(name), TIER_NAME_KEEP "%u", st->uid);
	mounts_detach_in(dir, name);
}

/* No server of a user's is asked. */
static int look_at(int dir, const char *name, struct statx *st)
{
	return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, st);
}

static int make_as_root(const struct state *st, int dir)
{
	_cleanup_(fd_closep) int fd = -1;

	detach_mounts(st, dir);
	fd = tier_name_make(dir, st->job_id);
	return fd < 0 ? fd : fchown(fd, st->uid, st->gid) < 0 ? -errno : 0;
}

/* Nobody else can make that name in a directory of root's. */
static int make_keep(const struct state *st, int dir)
{
	char name[TIER_NAME_SIZE];
	struct statx is;

	snprintf(name, sizeof(name), TIER_NAME_KEEP "%u", st->uid);
	if (mkdirat(dir, name, 0700) < 0 && (look_at(dir, name, &is) < 0 || is.stx_uid))
		return errno == EEXIST ? 0 : -1;
	return fchownat(dir, name, st->uid, st->gid, AT_SYMLINK_NOFOLLOW);
}

int tier_make(int dirfd, struct state *st, const struct hand_path *p, bool keep, struct error *err)
{
	_cleanup_(fd_closep) int dir = p->by_site ? -EPERM : open_roots(p->path);
	struct state_tier *t = state_find_tier(st, p->path) ?: state_find_tier(st, "");
	int r;

	if (keep && p->keep_s && dir >= 0 && make_keep(st, dir) < 0)
		log_warning("nothing is kept in %s: %s", p->path, strerror(errno));
	if (t && t->made)
		return 0;
	if (dir < 0 && dir != -EPERM)
		return error_errno(err, -dir, "open %s", p->path);
	if (!t || strchr(p->path, '\n') || strlen(p->path) >= sizeof(t->path))
		return error_set(err, ENOSPC, "too many disk tiers");
	strcpy(t->path, p->path);
	t->as_user = dir < 0;
	r = state_write(dirfd, st);
	if (r == 0)
		r = t->as_user ? do_as_user("tier-make", st, t, -1, clock_ms() + TIER_MAKE_MS) : make_as_root(st, dir);
	t->made = r == 0;
	if (p->by_site && r == -ENOENT)
		return error_set(err, ENOENT, "%s is not there: the site makes it (Provided=site)", p->path);
	return r < 0 ? error_errno(err, -r, "make the job's directory in %s", p->path) : 0;
}

/* An fd, -1: not ours to open; or another failure, -ENOENT where the tier is gone. */
static int open_again(const struct state_tier *t)
{
	return t->as_user ? -1 : open_roots(t->path);
}

int tier_set_aside(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		   struct error *err)
{
	_cleanup_(fd_closep) int dir = open_again(t);
	int r = dir;

	if (dir >= 0)
		detach_mounts(st, dir);
	if (t->as_user)
		r = do_as_user("tier-aside", st, t, -1, clock_ms() + TIER_MAKE_MS);
	else if (dir >= 0)
		r = tier_name_set_aside(dir, st->job_id);
	return r < 0 && r != -ENOENT ? error_errno(err, -r, "move what the job has in %s", t->path) : 0;
}

/* What is not empty is another user's, of an earlier job with the same id. */
static int remove_empty(void *arg, int dirfd, const char *name)
{
	return unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENOTEMPTY ? 0 : -errno;
}

int tier_remove(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		struct error *err)
{
	_cleanup_(fd_closep) int dir = open_again(t);
	int r = dir, tries = 0;

	/* A path that was too long for the kernel's table is shorter after the first time. */
	do {
		if (dir >= 0)
			detach_mounts(st, dir);
		if (t->as_user || dir >= 0)
			r = do_as_user("tier-empty", st, t, dir, deadline_ms);
	} while (r == -EBUSY && ++tries < MAX_TRIES);
	if (r == 0 && dir >= 0)
		r = tier_name_for_each(dir, st->job_id, remove_empty, NULL);
	return r < 0 && r != -ENOENT ? error_errno(err, -r, "remove what the job has in %s", t->path) : 0;
}

static void sweep_one(const struct hand_path *p, int base_fd, uint64_t deadline_ms)
{
	static struct state left;
	struct state_tier t = { .keep_s = p->keep_s ?: 1 }; /* nothing is kept any more */
	int fd = open_roots(p->path);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct error err = ERROR_INIT;
	struct dirent *e;
	struct statx st;
	char job[16];

	snprintf(t.path, sizeof(t.path), "%s", p->path);
	while (dir && (errno = 0, e = readdir(dir))) {
		if (tier_name_parse(e->d_name, &left.job_id) < 0)
			continue;
		snprintf(job, sizeof(job), "%u", left.job_id);
		/* Only what is known not to be there is no job's. */
		if (faccessat(base_fd, job, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
			continue;
		mounts_detach_in(fd, e->d_name);
		if (look_at(fd, e->d_name, &st) < 0 || st.stx_uid == 0)
			continue;
		left.uid = st.stx_uid;
		left.gid = st.stx_gid;
		/* However long others let us wait */
		deadline_ms = deadline_ms < clock_ms() + SWEEP_ONE_MS ? clock_ms() + SWEEP_ONE_MS : deadline_ms;
		if (tier_set_aside(&left, &t, deadline_ms, &err) < 0 || tier_remove(&left, &t, deadline_ms, &err) < 0)
			log_warning("%s", err.text);
		else if (left.job_id || unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0) /* 0: of what is kept */
			log_info("removed %s/%s, which no job uses", p->path, e->d_name);
	}
	if (dir && errno)
		log_warning("%s can't be read: %s", p->path, strerror(errno));
}

void tier_sweep(const char *conf_path, int base_fd, uint64_t deadline_ms)
{
	static const struct hand_job any;
	struct hand_path p;
	char which[16];
	int r;

	for (unsigned i = 0;; i++) {
		snprintf(which, sizeof(which), "%u", i);
		r = hand_find_path(conf_path, which, &any, &p);
		if (r == 0)
			sweep_one(&p, base_fd, deadline_ms);
		else if (r != -EINVAL)
			return; /* there are no more, or no configuration */
	}
}
