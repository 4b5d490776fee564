/*
 * Two parts. What another job, Slurm or the user could see goes first, and takes no longer for much
 * data than for little:
 *  1. processes, so that nothing is made behind our back; a worker stuck in a reader's D state
 *     needs
 *  2. the FUSE connections aborted, which also frees the job's own stuck readers;
 *  3. the unmounting, lazily and without following links, the tmpfs held by a descriptor;
 *  4. the directories in tiers get another name, which no later run of the job uses;
 *  5. what the manifests in the tmpfs name elsewhere yet (a shared tier), as the user;
 *  6. the directory's entries, by name, never recursively; 7. cgroups, empty now; 8. the directory
 *     itself moves to .trash: with that the job's end is over for everybody who waits for it.
 * Then what takes time, as the user: 9. the tmpfs is emptied, because what a container's private
 * mount namespace or an open file keeps of it would keep the memory, too. If this process is
 * killed, the kernel frees a tmpfs that nobody else holds. 10. the content of the tiers; 11. the
 * record, the lock and the directory, when nothing is left that they would tell of.
 */
#include "daemon/keeper/clean.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/fd.h"
#include "common/log.h"
#include "common/manifest.h"
#include "common/path.h"
#include "common/rmtree.h"
#include "common/rundir.h"
#include "daemon/keeper/abort.h"
#include "daemon/keeper/breaker.h"
#include "daemon/keeper/jobdir.h"
#include "daemon/keeper/jobmem.h"
#include "daemon/keeper/launch.h"
#include "daemon/keeper/mounts.h"
#include "daemon/keeper/state.h"
#include "daemon/keeper/tier.h"

#define TERM_GRACE_MS 1000
#define KILL_GRACE_MS 500
#define POLL_MS 5
#define BEHIND_NICE 5
#define ELSEWHERE_MS 5000 /* for what the manifests name: a shared file system may hang */

struct clean {
	struct jobdir *dir;
	struct state *st;
	bool job_over;
	uint64_t deadline_ms;
	int memory_fd; /* of the job's tmpfs */
};

static uint64_t soon(const struct clean *c, uint64_t ms)
{
	uint64_t t = clock_ms() + ms;

	return t < c->deadline_ms ? t : c->deadline_ms;
}

/* How many are left. */
static unsigned signal_and_wait(const struct clean *c, int sig, uint64_t ms)
{
	const uint64_t deadline = soon(c, ms);
	unsigned n;

	for (;; sig = 0, proc_sleep_ms(POLL_MS)) {
		n = 0;
		for (const struct proc *p = c->st->procs; p < c->st->procs + STATE_MAX_PROCS; p++) {
			if (!p->pid || !proc_is_alive(p))
				continue;
			if (sig)
				proc_kill(p, sig);
			n++;
		}
		if (!n || clock_ms() >= deadline)
			return n;
	}
}

/* Mounted slots are found by their directories: a torn record must not hide one. */
static int for_each_slot(int dirfd, int (*fn)(int dirfd, const char *name, struct error *err),
			 struct error *err)
{
	int fd = openat(dirfd, RUNDIR_MOUNTS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(dir_closep) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char name[300];
	struct dirent *e;
	int r, result = 0;

	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", RUNDIR_MOUNTS, e->d_name);
		r = fn(dirfd, name, result == 0 ? err : NULL);
		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}

static int abort_one(int dirfd, const char *name, struct error *err)
{
	abort_slot(dirfd, (unsigned)strtoul(strchr(name, '/') + 1, NULL, 10));
	return 0;
}

static int end_processes(struct clean *c, struct error *err)
{
	/* Pids of an earlier boot are somebody else's. */
	bool ours = state_is_current(c->st);

	if (ours && signal_and_wait(c, SIGTERM, TERM_GRACE_MS))
		signal_and_wait(c, SIGKILL, KILL_GRACE_MS);
	for_each_slot(c->dir->fd, abort_one, err);
	proc_kill_children(soon(c, KILL_GRACE_MS));
	if (ours && signal_and_wait(c, SIGKILL, KILL_GRACE_MS))
		return error_set(err, EBUSY,
				 "a process of ours can't be killed (it waits for a "
				 "file system)");
	return 0;
}

/* The user may have closed the tmpfs to himself: once it has no name it can't be opened up. */
static int open_up_memory(void *arg)
{
	const struct clean *c = arg;
	int r = launch_become(c->st->uid, c->st->gid, &c->st->gid, 1);

	return r < 0 ? r : fchmodat(c->dir->fd, RUNDIR_MEMORY, 0700, 0) < 0 ? -errno : 0;
}

/* What workers have made outside of the tmpfs, as their manifests say: what these name in it has no
 * path any more. They are the user's, and so is this process. */
static int release_elsewhere(void *arg)
{
	const struct clean *c = arg;
	int r = launch_become(c->st->uid, c->st->gid, &c->st->gid, 1);

	if (r == 0 && fchdir(c->memory_fd) < 0)
		r = -errno;
	return r < 0 ? r : manifest_release_all(path_base(RUNDIR_PRIVATE), NULL, NULL);
}

static int hold_memory(struct clean *c, struct error *err)
{
	struct stat st;
	int r = c->memory_fd = mounts_open_memory(c->dir->fd);

	if (r < 0)
		return r == -ENOENT ? 0 : error_errno(err, -r, "find the job's tmpfs");
	/* The tmpfs itself knows whose it is, where the record is lost. */
	if (fstat(c->memory_fd, &st) < 0)
		return error_errno(err, errno, "look at the job's tmpfs");
	if (!c->st->uid) {
		c->st->uid = st.st_uid;
		c->st->gid = st.st_gid;
	}
	r = st.st_uid ? proc_run(open_up_memory, c, soon(c, ELSEWHERE_MS)) : 0;
	return r < 0 ? error_errno(err, -r, "open the job's tmpfs") : 0;
}

static int unmount(struct clean *c, struct error *err)
{
	int r = for_each_slot(c->dir->fd, mounts_detach, err);
	int r2 = mounts_detach(c->dir->fd, RUNDIR_MEMORY, r < 0 ? NULL : err);

	return r < 0 ? r : r2;
}

static int release(struct clean *c, struct error *err)
{
	/* Without a user the tmpfs was never handed over. */
	int r = c->memory_fd < 0 || !c->st->uid
			? 0
			: proc_run(release_elsewhere, c, soon(c, ELSEWHERE_MS));

	if (r < 0 && r != -ENOENT)
		log_warning("what the manifests of job %u name is not all gone: %s", c->st->job_id,
			    strerror(-r));
	return 0;
}

/* A directory in .trash whose job is here again: what is in the tiers may be that run's. */
static bool has_later_run(const struct clean *c)
{
	char path[32];

	snprintf(path, sizeof(path), "../%u", c->st->job_id);
	return strchr(c->dir->name, '.') && faccessat(c->dir->base_fd, path, F_OK, 0) == 0;
}

static int for_each_tier(struct clean *c, tier_fn fn, struct error *err)
{
	const struct state *st = c->st;
	int r, result = 0;

	for (size_t i = 0; i < STATE_MAX_TIERS; i++) {
		if (!st->tiers[i].path[0] || !st->uid)
			continue;
		r = fn(&st->tiers[i], st->job_id, st->uid, st->gid, c->deadline_ms,
		       result == 0 ? err : NULL);
		result = result ? result : r;
	}
	return result;
}

static int set_tiers_aside(struct clean *c, struct error *err)
{
	return has_later_run(c) ? 0 : for_each_tier(c, tier_set_aside, err);
}

static int remove_tiers(struct clean *c, struct error *err)
{
	return for_each_tier(c, tier_remove, err);
}

static int remove_name(int dirfd, const char *name, struct error *err)
{
	if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EISDIR && (unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
		return 0;
	return error_errno(err, errno, "remove %s", name);
}

static int remove_names(int dirfd, const char *const *names, struct error *err)
{
	int r = 0;

	for (; r == 0 && *names; names++)
		r = remove_name(dirfd, *names, err);
	return r;
}

static int remove_entries(struct clean *c, struct error *err)
{
	static const char *const names[] = { RUNDIR_SOCK, RUNDIR_FAILED, RUNDIR_STATE ".tmp",
					     RUNDIR_MOUNTS, NULL };
	int r = for_each_slot(c->dir->fd, remove_name, err);

	return r < 0 ? r : remove_names(c->dir->fd, names, err);
}

static int remove_group(struct clean *c, struct error *err)
{
	int r = c->st->cgroup[0]
			? jobmem_remove_group(c->st->cgroup, c->job_over, soon(c, KILL_GRACE_MS))
			: 0;

	if (r < 0)
		return error_errno(err, -r, "remove %s", c->st->cgroup);
	c->st->cgroup[0] = '\0'; /* a later run of the job may have one of that name */
	return 0;
}

/* From now on nobody waits for us. Whoever opens the directory by its old name sees none. */
static int move_aside(struct clean *c, struct error *err)
{
	if (strchr(c->dir->name, '.'))
		return 0;
	proc_get(getpid(), &c->st->keeper);
	state_write(c->dir->fd, c->st);
	return jobdir_trash(c->dir, err);
}

static int empty_memory(void *arg)
{
	const struct clean *c = arg;
	const struct rmtree_limits limits = { .deadline_ms = c->deadline_ms };
	int r = launch_become(c->st->uid, c->st->gid, &c->st->gid, 1);

	setpriority(PRIO_PROCESS, 0, BEHIND_NICE);
	return r < 0 ? r : rmtree_empty(c->memory_fd, &limits, NULL);
}

static int free_memory(struct clean *c, struct error *err)
{
	int r = 0;

	/* The user may kill it: his processes elsewhere don't keep the memory by that. */
	for (int tries = 0; c->memory_fd >= 0 && c->st->uid && tries < 3; tries++) {
		r = proc_run(empty_memory, c, c->deadline_ms + 200);
		if (r != -EINTR)
			break;
	}
	fd_closep(&c->memory_fd);
	c->memory_fd = -1;
	if (r < 0 && r != -EXDEV)
		return error_errno(err, -r, "empty the job's tmpfs");
	return remove_name(c->dir->fd, RUNDIR_MEMORY, err);
}

static int remove_record(struct clean *c, struct error *err)
{
	static const char *const names[] = { RUNDIR_STATE, RUNDIR_LOCK, NULL };
	int r = remove_names(c->dir->fd, names, err);

	return r < 0 ? r : remove_name(c->dir->base_fd, c->dir->name, err);
}

int clean_release(struct jobdir *d, struct state *st, bool job_over, uint64_t deadline_ms,
		  uint64_t behind_ms, struct error *err)
{
	static int (*const steps[])(struct clean * c, struct error * err) = {
		end_processes,	hold_memory,  unmount,	  set_tiers_aside, release,
		remove_entries, remove_group, move_aside, free_memory,	   remove_tiers,
	};
	struct clean c = { d, st, job_over, deadline_ms, -1 };
	int r, result = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		if (steps[i] == move_aside && result < 0)
			continue; /* the epilog shall try again */
		r = steps[i](&c, result == 0 ? err : NULL);
		if (r < 0 && result == 0)
			result = r;
		if (steps[i] == move_aside)
			c.deadline_ms += behind_ms;
	}
	return result == 0 ? remove_record(&c, err) : result;
}

/* Asks the keeper to end until the lock is free. */
static int end_keeper(struct jobdir *d, uint64_t deadline_ms, struct error *err)
{
	struct state st;
	int r, sig = SIGTERM;

	for (;;) {
		if (state_read(d->fd, &st) == 0 && state_is_current(&st))
			proc_kill(&st.keeper, sig);
		r = jobdir_lock(d, clock_ms() + 200, err);
		if (r != -EBUSY || sig == SIGKILL)
			return r;
		if (clock_ms() >= deadline_ms)
			sig = SIGKILL;
	}
}

static void note_crash(const struct state *st)
{
	_cleanup_(fd_closep) int base = -1;

	if (st->ending || st->failed || !st->keeper.pid || !state_is_current(st))
		return;
	log_error("the keeper of job %u died without cleaning up", st->job_id);
	base = jobdir_open_base(NULL, NULL);
	if (base >= 0)
		breaker_count(base);
}

int clean_job(int base_fd, const char *name, const struct clean_options *o, struct error *err)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	struct state st;
	int r = jobdir_open(&d, base_fd, name, err);

	if (r == 0)
		r = jobdir_lock(&d, 0, err);
	if (r == -EBUSY && o->end_keeper)
		r = end_keeper(&d, clock_ms() + o->timeout_ms, err);
	if (r == 0) {
		if (state_read(d.fd, &st) == 0) {
			note_crash(&st);
			st.ending = true;
			state_write(d.fd, &st);
		}
		r = clean_release(&d, &st, true, clock_ms() + o->timeout_ms, 0, err);
	}
	return r == JOBDIR_E_GONE ? 0 : r;
}
