/*
 * A clean-up has two parts. The first part removes everything that another job, Slurm or the user
 * could see. Its duration does not depend on the amount of data. It has these steps:
 *
 *  1. The processes are ended, so that no process creates anything more. A worker that reads from
 *     a hanging mount (state D) can end only after step 2.
 *  2. The FUSE connections are aborted. This also frees processes of the job that hang in them.
 *  3. The mounts are unmounted, lazily and without following links. The tmpfs stays open by a
 *     descriptor. Its owner is the owner of the job, if there is no record.
 *  4. The directories in tiers are renamed, so that no later run of the job uses them.
 *  5. The manifests in the tmpfs list what workers have made in other places (a shared tier). This
 *     is removed as the user.
 *  6. The entries of the run directory are removed by name, never recursively.
 *  7. The cgroups, which are empty now, are removed.
 *  8. The run directory is moved to .trash. After this step, the end of the job no longer waits
 *     for this clean-up.
 *
 * The second part takes time. Processes of the user do it:
 *
 *  9. The tmpfs is emptied. A container's private mount namespace, or an open file, may still hold
 *     the tmpfs, and would otherwise hold its memory as well. If this process is killed, the
 *     kernel frees a tmpfs that nothing else holds.
 *  10. The content of the tiers is removed.
 *  11. The record, the lock and the directory are removed, when nothing is left that the record
 *      lists.
 */
#include "daemon/manager/clean.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/breaker.h"
#include "daemon/manager/cgroup-join.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/job-cgroup-memory.h"
#include "daemon/manager/mounts.h"
#include "daemon/manager/state.h"
#include "daemon/manager/tier.h"

#define TERM_GRACE_MS 1000
#define KILL_GRACE_MS 500
#define POLL_US 5000
#define LATER_NICE 5
#define HOLD_MS 5000 /* for detaching mounts from the tmpfs: a user may make new ones */
#define LET_GO_MS 1000
#define ELSEWHERE_MS 5000 /* for objects in the manifests: a shared file system may hang */

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

/* Sends sig to the processes in the record and waits at most ms for their end. Returns how many are
 * left. */
static unsigned signal_and_wait(const struct clean *c, int sig, uint64_t ms)
{
	const uint64_t deadline = soon(c, ms);
	unsigned n;

	for (;; sig = 0, usleep(POLL_US)) {
		n = 0;
		for (const struct state_proc *p = c->st->procs; p < c->st->procs + STATE_MAX_PROCS;
		     p++) {
			if (!p->pid || !state_proc_is_alive(p))
				continue;
			if (sig)
				state_proc_signal(p, sig);
			n++;
		}
		if (!n || clock_ms() >= deadline)
			return n;
	}
}

static int end_processes(struct clean *c, struct error *err)
{
	/* After a reboot, the pids in the record belong to other processes. */
	bool ours = state_is_current(c->st);

	if (ours && signal_and_wait(c, SIGTERM, TERM_GRACE_MS))
		signal_and_wait(c, SIGKILL, KILL_GRACE_MS);
	for (unsigned i = 0; i < RUNDIR_MAX_SLOTS; i++)
		mounts_abort(c->dir, i);
	helper_end_all(soon(c, KILL_GRACE_MS));
	if (ours && signal_and_wait(c, SIGKILL, KILL_GRACE_MS))
		return error_set(err, EBUSY,
				 "a process of stage-data can't be killed (it waits for a "
				 "file system)");
	return 0;
}

/* Runs a helper as the user. It has ms milliseconds, and ends at the deadline at the latest. */
static int do_as_user(const struct clean *c, struct helper h, uint64_t ms)
{
	h.uid = c->st->uid;
	h.gid = c->st->gid;
	h.deadline_ms = soon(c, ms);
	return helper_do(&h);
}

static int hold_memory(struct clean *c, struct error *err)
{
	int r = c->memory_fd = mounts_open_memory(c->dir, soon(c, HOLD_MS));

	return r < 0 && r != -ENOENT ? error_errno(err, -r, "find the job's tmpfs") : 0;
}

static int unmount(struct clean *c, struct error *err)
{
	int r, result = 0;

	for (uint32_t name = 0; name <= MOUNTS_MEMORY; name++) {
		r = mounts_detach(c->dir, name, result == 0 ? err : NULL);
		result = result ? result : r;
	}
	return result;
}

/* The owner of the job is in the record. If the record is missing or damaged, the tmpfs shows the
 * owner. */
static int find_owner(struct clean *c, struct error *err)
{
	struct statx st;

	if (c->st->uid || c->memory_fd < 0 || mounts_get_owner(c->memory_fd, &st) < 0)
		return 0;
	c->st->uid = st.stx_uid;
	c->st->gid = st.stx_gid;
	return 0;
}

/* Removes the objects outside the tmpfs that the manifests in it list. */
static int release(struct clean *c, struct error *err)
{
	const struct helper h = { .argv = { "stage-helper", "release", NULL },
				  .dir = c->memory_fd };
	/* If no user is known, the tmpfs was never given to one. */
	int r = c->memory_fd < 0 || !c->st->uid ? 0 : do_as_user(c, h, ELSEWHERE_MS);

	if (r < 0 && r != -ENOENT)
		log_warning("job %u: some entries of its manifests could not be removed: %s",
			    c->st->job_id, strerror(-r));
	return 0;
}

/* The directory is in .trash, or was moved there by a process that could not wait for us, and a
 * later run of the job is on this node. Objects with the job's name, in tiers and elsewhere, may
 * belong to that run. */
static bool has_later_run(const struct clean *c)
{
	char path[PATH_MAX];

	if (!c->dir->id.aside_ms)
		return jobdir_check_place(c->dir, NULL) == JOBDIR_E_GONE;
	return rundir_path(path, sizeof(path), c->st->job_id, NULL) > 0 &&
	       (access(path, F_OK) == 0 || errno != ENOENT);
}

/* Returns the user of that later run; 0: it has no record yet. */
static uid_t get_later_user(const struct clean *c)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	const struct jobdir_id id = { .job_id = c->dir->id.job_id };
	static struct state st;

	return jobdir_open(&d, &id, NULL) != 0 || jobdir_read_state(&d, &st) < 0 ? 0 : st.uid;
}

/*
 * Decides whether the job's directory in a tier may be set aside. In a tier of root, the directory
 * belongs to the later run, or the sweep finds it. In a tier of users, which is not swept, the
 * later run can have the same directory only if its user is the same. Returns 1: it may be set
 * aside; 0: it may not; -EAGAIN: this is not known yet, and the record has to stay.
 */
static int may_set_aside(const struct clean *c, const struct state_tier *t)
{
	uid_t later;

	if (!has_later_run(c))
		return 1;
	if (!t->as_user)
		return 0;
	later = get_later_user(c);
	return later ? later != c->st->uid : -EAGAIN;
}

static int for_each_tier(struct clean *c, tier_fn fn, struct error *err)
{
	const struct state *st = c->st;
	int r, result = 0;

	for (size_t i = 0; i < STATE_MAX_TIERS; i++) {
		if (!st->tiers[i].path[0] || !st->uid)
			continue;
		r = fn == tier_set_aside ? may_set_aside(c, &st->tiers[i]) : 1;
		if (r < 0 && result == 0)
			result = error_set(err, -r,
					   "a later run of the job has no record yet, so what it "
					   "has in %s stays",
					   st->tiers[i].path);
		if (r <= 0)
			continue;
		r = fn(st, &st->tiers[i], c->deadline_ms, result == 0 ? err : NULL);
		result = result ? result : r;
	}
	return result;
}

static int set_tiers_aside(struct clean *c, struct error *err)
{
	return for_each_tier(c, tier_set_aside, err);
}

static int remove_tiers(struct clean *c, struct error *err)
{
	return for_each_tier(c, tier_remove, err);
}

static int remove_names(struct clean *c, const enum privop_name *names, size_t n, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = jobdir_remove(c->dir, names[i], 0, err);
	return r;
}

static int remove_entries(struct clean *c, struct error *err)
{
	static const enum privop_name names[] = { PRIVOP_NAME_SOCK, PRIVOP_NAME_FAILED,
						  PRIVOP_NAME_STATE_NEW, PRIVOP_NAME_MOUNTS };
	int r = 0;

	for (uint32_t slot = 0; r == 0 && slot < RUNDIR_MAX_SLOTS; slot++)
		r = jobdir_remove(c->dir, PRIVOP_NAME_SLOT, slot, err);
	return r < 0 ? r : remove_names(c, names, ARRAY_SIZE(names), err);
}

/* If the directory is in .trash, the later run of the job removes the cgroups, which have the same
 * names. */
static int remove_groups(struct clean *c, struct error *err)
{
	const bool is_replaced = c->dir->id.aside_ms || has_later_run(c);
	struct job_cgroup_job job = state_get_job(c->st);
	char dir[PATH_MAX];
	int r = 0;

	job.job_id = c->dir->id.job_id;
	for (enum privop_group which = 0; !is_replaced && which < PRIVOP_N_GROUPS; which++) {
		int found = cgroup_join_find(which, &job, dir, sizeof(dir));

		if (found == 0)
			found = job_cgroup_remove(dir, which, c->job_over, soon(c, KILL_GRACE_MS));
		if (found < 0 && found != -ENOENT && found != -ENODEV && r == 0)
			r = error_errno(err, -found, "remove the job's group of %s",
					cgroup_join_to_string(which));
	}
	return r;
}

/* From now on, no process waits for us. The directory can no longer be opened by its old name. */
static int move_aside(struct clean *c, struct error *err)
{
	if (c->dir->id.aside_ms)
		return 0;
	helper_get_keeper(&c->st->keeper);
	jobdir_write_state(c->dir, c->st);
	return jobdir_trash(c->dir, err);
}

static int free_memory(struct clean *c, struct error *err)
{
	char deadline[24];
	const struct helper h = { .argv = { "stage-helper", "empty", deadline, NULL },
				  .dir = c->memory_fd,
				  .nice = LATER_NICE };
	int r = 0;

	snprintf(deadline, sizeof(deadline), "%llu", (unsigned long long)c->deadline_ms);
	if (c->memory_fd >= 0 && c->st->uid)
		r = do_as_user(c, h, UINT32_MAX);
	fd_closep(&c->memory_fd);
	if (r < 0 && r != -EXDEV)
		return error_errno(err, -r, "empty the job's tmpfs");
	return jobdir_remove(c->dir, PRIVOP_NAME_MEMORY, 0, err);
}

/* A process that opened the directory before the lock was removed may have made its own lock in it.
 * That process cleans up the rest, or gives up the lock at once because it looked for the old name.
 * Then the directory is ours. */
static int remove_record(struct clean *c, struct error *err)
{
	static const enum privop_name names[] = { PRIVOP_NAME_STATE_NEW, PRIVOP_NAME_STATE,
						  PRIVOP_NAME_LOCK };
	const uint64_t until_ms = clock_ms() + LET_GO_MS;
	int r;

	for (;;) {
		r = remove_names(c, names, ARRAY_SIZE(names), err);
		r = r < 0 ? r : jobdir_check_place(c->dir, err);
		r = r == 0 ? jobdir_remove_itself(c->dir, err) : r;
		if (r != -ENOTEMPTY || faccessat(c->dir->fd, RUNDIR_LOCK, F_OK, 0) < 0)
			return r;
		jobdir_unlock(c->dir);
		if (clock_ms() >= until_ms || jobdir_lock(c->dir, until_ms, err) != 0)
			return JOBDIR_E_GONE;
	}
}

typedef int (*step_fn)(struct clean *c, struct error *err);

/* Runs all steps, also after a failure. Returns the first failure, or result if that is a failure
 * already. */
static int do_steps(struct clean *c, const step_fn *steps, size_t n, int result, struct error *err)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		r = steps[i](c, result == 0 ? err : NULL);
		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}

int clean_release(struct jobdir *d, struct state *st, bool job_over, uint64_t deadline_ms,
		  uint64_t later_ms, struct error *err)
{
	static const step_fn steps[] = {
		end_processes,	 hold_memory, unmount,	      find_owner,
		set_tiers_aside, release,     remove_entries, remove_groups,
	};
	/* No epilog waits for these steps. */
	static const step_fn later_steps[] = {
		free_memory,
		remove_tiers,
	};
	struct clean c = { d, st, job_over, deadline_ms, -1 };
	int r, result = 0;

	result = do_steps(&c, steps, ARRAY_SIZE(steps), 0, err);
	if (result == 0) { /* after a failure, the directory stays for the next try */
		r = move_aside(&c, err);
		result = r < 0 ? r : 0;
		c.deadline_ms += later_ms;
	}
	result = do_steps(&c, later_steps, ARRAY_SIZE(later_steps), result, err);
	return result == 0 ? remove_record(&c, err) : result;
}

/* Asks the keeper to end, and waits until the lock is free. A stopped keeper is continued so that
 * it can end. Sets *toldp if there was a keeper. */
static int end_keeper(struct jobdir *d, uint64_t deadline_ms, bool *toldp, struct error *err)
{
	static struct state st;
	int r, sig = SIGTERM;

	for (;;) {
		if (jobdir_read_state(d, &st) == 0 && state_is_current(&st) &&
		    state_proc_signal(&st.keeper, sig) == 0) {
			*toldp = true;
			state_proc_signal(&st.keeper, SIGCONT);
		}
		r = jobdir_lock(d, clock_ms() + 200, err);
		if (r != -EBUSY || sig == SIGKILL)
			return r;
		if (clock_ms() >= deadline_ms)
			sig = SIGKILL;
	}
}

/* Some steps of a clean-up run as the job's user. Root refuses these steps to a keeper of another
 * user's job. */
static int leave_to_reaper(struct jobdir *d, struct state *st, const struct clean_options *o,
			   struct error *err)
{
	struct clean c = { d, st, true, clock_ms() + o->timeout_ms, -1 };

	if (o->end_keeper)
		(void)end_processes(&c, NULL);
	(void)error_set(err, EPERM,
			"uid %u had a job of this number, and the reaper removes what it has",
			st->uid);
	return CLEAN_E_OTHERS;
}

/* Returns true if a directory without a record, or with a damaged one, belongs to another user.
 * Then st has the uid of this user. */
static bool is_others(const struct jobdir *d, struct state *st, const struct clean_options *o)
{
	_cleanup_(fd_closep) int memory = -1;
	struct statx s;

	if (!o->only_uid)
		return false;
	jobdir_find_owner(d, st);
	if (!st->uid)
		memory = mounts_open_memory(d, clock_ms() + o->timeout_ms);
	if (memory >= 0 && mounts_get_owner(memory, &s) == 0) {
		st->uid = s.stx_uid;
		st->gid = s.stx_gid;
	}
	return st->uid && st->uid != o->only_uid;
}

int clean_job(struct jobdir_id *id, const struct clean_options *o, struct error *err)
{
	_cleanup_(jobdir_deinit) struct jobdir d = JOBDIR_INIT;
	static struct state st; /* it is large; end_keeper() has another one */
	bool told = false;
	int r = jobdir_open(&d, id, err);

	if (r == 0)
		r = jobdir_lock(&d, 0, err);
	if (r == -EPERM && o->only_uid)
		return CLEAN_E_OTHERS; /* root locks no directory of other users */
	if (r == -EBUSY && !o->end_keeper)
		return 0;
	if (r == -EBUSY)
		r = end_keeper(&d, clock_ms() + o->timeout_ms, &told, err);
	if (r == 0) {
		r = jobdir_read_state(&d, &st);
		/* An object that the record gives to another user could belong to a running job.
		 * The mark is also needed if the record is lost. */
		st.job_id = id->job_id;
		if (r == 0) {
			/* A keeper that was told to end did not die by itself, however long its end
			 * took. A directory that was moved aside had a clean-up before, or a job's
			 * manager wrote its record. */
			if (!told && !d.id.aside_ms)
				breaker_report_death(&d, &st);
			st.ending = true;
			jobdir_write_state(&d, &st);
			if (o->only_uid && st.uid && st.uid != o->only_uid)
				return leave_to_reaper(&d, &st, o, err);
		} else if (r == -ENOENT || r == -EPROTO) {
			if (is_others(&d, &st, o))
				return leave_to_reaper(&d, &st, o, err);
			log_warning(
				"job %u has no record, or a damaged one: what it has in tiers is "
				"left to the reaper",
				id->job_id);
		} else { /* the record may list processes that still run */
			return error_errno(err, -r, "read the record of job %u", id->job_id);
		}
		r = clean_release(&d, &st, true, clock_ms() + o->timeout_ms, 0, err);
		*id = d.id;
	}
	return r == JOBDIR_E_GONE ? 0 : r;
}
