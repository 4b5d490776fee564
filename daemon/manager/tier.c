#include "daemon/manager/tier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/tier-name.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/leftover.h"
#include "daemon/manager/mounts.h"
#include "daemon/manager/state.h"

#define TIER_MAKE_MS 1000
#define SWEEP_ONE_MS 5000
#define MAX_TRIES 3

/* A sweep of one tier: a search for leftovers that no record lists. */
struct sweep {
	const struct helper_path *path;
	int fd; /* of the tier; -1: the tier does not belong to root and is not swept */
	uint64_t deadline_ms;
	bool by_timer;
};

/* Runs a task of stage-helper as the user. dir: the tier, opened by root; -1: the user opens it. */
static int do_as_user(const char *what, const struct state *st, const struct state_tier *t, int dir,
		      uint64_t deadline_ms)
{
	char job[16], deadline[24], keep[16];
	const struct helper h = { .argv = { "stage-helper", what, job, dir < 0 ? t->path : "",
					    deadline, keep, NULL },
				  .uid = st->uid,
				  .gid = st->gid,
				  .dir = dir,
				  .deadline_ms = deadline_ms + 200 };

	snprintf(job, sizeof(job), "%u", st->job_id);
	snprintf(deadline, sizeof(deadline), "%llu", (unsigned long long)deadline_ms);
	snprintf(keep, sizeof(keep), "%u", t->keep_s);
	return helper_do(&h);
}

/* Detaches the user's mounts on the job's directory in the tier, and on his kept data. */
static void detach_mounts(const struct state *st, int dir)
{
	char name[TIER_NAME_SIZE];

	snprintf(name, sizeof(name), TIER_NAME_JOB "%u", st->job_id);
	mounts_detach_in(dir, name);
	snprintf(name, sizeof(name), TIER_NAME_KEEP "%u", st->uid);
	mounts_detach_in(dir, name);
}

/* Sends no request to a user's server. */
static int look_at(int dir, const char *name, struct statx *st)
{
	return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, st);
}

static bool is_same_device(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major && a->stx_dev_minor == b->stx_dev_minor;
}

/* Finds the owner of a job's directory in the tier: 0, or -errno. A file system that the user has
 * mounted could report any owner, so it is not asked. */
static int find_owner(int dir, const char *name, struct statx *st)
{
	char data[NAME_MAX + sizeof("/" TIER_NAME_DATA)];
	struct statx tier;

	if (look_at(dir, ".", &tier) < 0 || look_at(dir, name, st) < 0)
		return -errno;
	if (!is_same_device(st, &tier))
		return -EXDEV;
	if (st->stx_uid)
		return 0; /* the user has made it */
	snprintf(data, sizeof(data), "%s/" TIER_NAME_DATA, name);
	if (look_at(dir, data, st) < 0)
		return -errno;
	return is_same_device(st, &tier) ? 0 : -EXDEV;
}

/* Gives the job's directory, if there is one, the name of a leftover. */
static int rename_aside(const struct state *st)
{
	int r = privops_rename(PRIVOP_DIR_TIER, PRIVOP_NAME_TIER, PRIVOP_DIR_TIER,
			       PRIVOP_NAME_TIER_ASIDE, st->job_id, (int64_t)clock_ms());

	return r == -ENOENT ? 0 : r;
}

static int make_as_root(const struct state *st, int dir)
{
	int r;

	detach_mounts(st, dir);
	r = rename_aside(st);

	return r < 0 ? r
		     : privops_do_name(PRIVOP_MAKE_DIR, PRIVOP_DIR_TIER, PRIVOP_NAME_TIER,
				       st->job_id, 0, 0);
}

/* The tier belongs to root, so nobody else can make that name in it. */
static int make_keep(const struct state *st)
{
	return privops_do_name(PRIVOP_MAKE_DIR, PRIVOP_DIR_TIER, PRIVOP_NAME_KEEP, st->uid, 0, 0);
}

int tier_make(const struct jobdir *d, struct state *st, const struct helper_path *p, int64_t which,
	      bool keep, struct error *err)
{
	_cleanup_(fd_closep) int dir = p->by_site ? -EPERM : helper_open_tier(p->path, which);
	struct state_tier *t = state_find_tier(st, p->path) ?: state_find_tier(st, "");
	int r = keep && p->keep_s && dir >= 0 ? make_keep(st) : 0;

	if (r < 0)
		log_warning("nothing is kept in %s: %s", p->path, strerror(-r));
	if (t && t->made)
		return 0;
	if (dir < 0 && dir != -EPERM)
		return error_errno(err, -dir, "open %s", p->path);
	if (strchr(p->path, '\n') || strlen(p->path) >= sizeof(t->path))
		return error_set(err, EINVAL, "Path= of a tier can't be used: %.80s%s", p->path,
				 strchr(p->path, '\n') ? " (a line end)" : "... (too long)");
	if (!t)
		return error_set(err, ENOSPC, "too many disk tiers");
	strcpy(t->path, p->path);
	t->as_user = dir < 0;
	r = jobdir_write_state(d, st);
	if (r == 0)
		r = t->as_user ? do_as_user("tier-make", st, t, -1, clock_ms() + TIER_MAKE_MS)
			       : make_as_root(st, dir);
	t->made = r == 0;
	if (r > 0) {
		(void)error_set(err, EPERM, "%s has mode %04o: others may exchange what is in it",
				p->path, (unsigned)r);
		return r;
	}
	if (p->by_site && r == -ENOENT)
		return error_set(err, ENOENT, "%s is not there: the site makes it (Provided=site)",
				 p->path);
	return r < 0 ? error_errno(err, -r, "make the job's directory in %s", p->path) : 0;
}

/* Opens the tier as root. Returns an fd; -1: the user has to open it; or another -errno, -ENOENT if
 * the tier is gone. */
static int open_again(const struct state_tier *t)
{
	return t->as_user ? -1 : helper_open_tier(t->path, -1);
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
		r = rename_aside(st);
	return r < 0 && r != -ENOENT ? error_errno(err, -r, "move what the job has in %s", t->path)
				     : 0;
}

/* A directory that is not empty belongs to another user, from an earlier job with the same id. */
static int remove_empty(void *arg, int dirfd, const char *name)
{
	const struct state *st = arg;
	const uint64_t ms = strtoull(strchr(name, '.') + 1, NULL, 10);
	int r = privops_do_name(PRIVOP_REMOVE, PRIVOP_DIR_TIER, PRIVOP_NAME_TIER_ASIDE, st->job_id,
				(int64_t)ms, 0);

	return r == -ENOENT || r == -ENOTEMPTY ? 0 : r;
}

int tier_remove(const struct state *st, const struct state_tier *t, uint64_t deadline_ms,
		struct error *err)
{
	_cleanup_(fd_closep) int dir = open_again(t);
	int r = dir, tries = 0;

	/* A path may be too long for the kernel's table. It is shorter after the first try. */
	do {
		if (dir >= 0)
			detach_mounts(st, dir);
		if (st->uid && (t->as_user || dir >= 0))
			r = do_as_user("tier-empty", st, t, dir, deadline_ms);
	} while (r == -EBUSY && ++tries < MAX_TRIES);
	if (r == 0 && dir >= 0)
		r = tier_name_for_each(dir, st->job_id, remove_empty, (void *)st);
	return r < 0 && r != -ENOENT
		       ? error_errno(err, -r, "remove what the job has in %s", t->path)
		       : 0;
}

/* Removes a user's directory for kept data if it is empty. */
static int remove_kept(const char *name)
{
	return privops_do_name(PRIVOP_REMOVE, PRIVOP_DIR_TIER, PRIVOP_NAME_KEEP,
			       strtoll(name + strlen(TIER_NAME_KEEP), NULL, 10), 0, 0);
}

/* Removes a directory that contains no directory of a user, because a crash came before that was
 * made or after it was removed. Also removes a directory for kept data that was not given to its
 * user yet. */
static void remove_unowned(const char *name, uint32_t job_id)
{
	const char *number = strchr(name, '.');

	if (job_id == 0)
		(void)remove_kept(name);
	else if (number)
		(void)privops_do_name(PRIVOP_REMOVE, PRIVOP_DIR_TIER, PRIVOP_NAME_TIER_ASIDE,
				      job_id, strtoll(number + 1, NULL, 10), 0);
	else
		(void)privops_do_name(PRIVOP_REMOVE, PRIVOP_DIR_TIER, PRIVOP_NAME_TIER, job_id, 0,
				      0);
}

static bool is_told(const char *name, bool by_timer)
{
	const char *number = strchr(name, '.');

	return !by_timer || leftover_may_be_told(number ? strtoull(number + 1, NULL, 10) : 0);
}

/* Returns true only if it is certain that the job has no run directory. */
static bool is_unused(uint32_t job_id)
{
	char rundir[PATH_MAX];

	return rundir_path(rundir, sizeof(rundir), job_id, NULL) >= 0 && access(rundir, F_OK) < 0 &&
	       errno == ENOENT;
}

static void sweep_entry(const struct sweep *s, const char *name)
{
	static struct state left;
	struct state_tier t = { .keep_s = s->path->keep_s ?: 1 }; /* 1: keep nothing */
	const uint64_t own_ms = clock_ms() + SWEEP_ONE_MS; /* each entry has this time, even if
							    * others used up the total time */
	const uint64_t deadline_ms = s->deadline_ms < own_ms ? own_ms : s->deadline_ms;
	struct error err = ERROR_INIT;
	struct statx st;
	int r;

	if (tier_name_parse(name, &left.job_id) < 0 || !is_unused(left.job_id))
		return;
	mounts_detach_in(s->fd, name);
	r = find_owner(s->fd, name, &st);
	if (r == -ENOENT)
		remove_unowned(name, left.job_id);
	if (r < 0 || st.stx_uid == 0)
		return;
	left.uid = st.stx_uid;
	left.gid = st.stx_gid;
	snprintf(t.path, sizeof(t.path), "%s", s->path->path);
	r = tier_set_aside(&left, &t, deadline_ms, &err);
	r = r < 0 ? r : tier_remove(&left, &t, deadline_ms, &err);
	if (r < 0 && is_told(name, s->by_timer))
		log_warning("%s", err.text);
	else if (r >= 0 && (left.job_id || remove_kept(name) == 0)) /* 0: kept data */
		log_info("removed %s/%s, which no job uses", s->path->path, name);
}

/* Begins at a random entry and goes around, so an entry that delays a run until systemd ends it
 * delays the others only in that run. */
static void sweep_one(const struct sweep *s)
{
	_cleanup_(dir_closep) DIR *dir = s->fd < 0 ? NULL : fdopendir(s->fd);
	const struct dirent *e;
	size_t n = 0, i, first;

	if (s->fd >= 0 && !dir) {
		log_warning("%s can't be read: %s", s->path->path, strerror(errno));
		close(s->fd);
		return;
	}

	while (dir && (errno = 0, e = readdir(dir)))
		n++;
	if (dir && errno)
		log_warning("%s can't be read: %s", s->path->path, strerror(errno));
	first = n ? clock_ms() % n : 0;
	for (int turn = 0; dir && turn < 2; turn++) {
		rewinddir(dir);
		for (i = 0; (e = readdir(dir)); i++)
			if ((i >= first) == (turn == 0))
				sweep_entry(s, e->d_name);
	}
}

void tier_sweep(uint64_t deadline_ms, bool by_timer)
{
	static const struct helper_job any;
	struct helper_path p;
	char which[16];
	int r;

	for (unsigned i = 0;; i++) {
		snprintf(which, sizeof(which), "%u", i);
		r = helper_find_path(which, &any, &p);
		if (r == 0)
			sweep_one(&(struct sweep){ &p, helper_open_tier(p.path, -1), deadline_ms,
						   by_timer });
		else if (r != -EINVAL)
			return; /* there are no more tiers, or there is no configuration */
	}
}
