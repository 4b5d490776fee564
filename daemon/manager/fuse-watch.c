/*
 * A process with another uid cannot see where a thread waits: the kernel does not show it the
 * descriptors of the thread's process, nor the thread's place in the kernel. A thread that exits
 * has no descriptors any more. So the watch uses two facts together. First, a thread of the job
 * exits or was killed, and it has slept without a context switch for the whole limit. Second, a
 * connection of the job has had a request without an answer at each check in that time. A thread
 * that gets no CPU is runnable, and a thread whose server is slow is woken up by each answer. So
 * neither counts as hung, however busy the node is.
 *
 * A thread that exits waits for FLUSH in state S, but no signal reaches it any more. A thread that
 * was killed waits in state D for a request that the server has accepted. So the state shows only
 * that the thread sleeps.
 *
 * Root could read the kernel stack of a thread, but this does not help. Only the thread that sent
 * the request has a function of FUSE in its stack. A thread that waits for the same name is in
 * d_alloc_parallel(), in state D (seen on 6.18). A thread that waits for a lock of the directory
 * is in the VFS. On x86, wchan is 0 before Linux 5.16. So a thread that hangs in another file
 * system counts as a thread that waits for a server, if requests wait at a server as well.
 *
 * An io_uring thread whose process has no other threads left runs while it waits for its requests.
 * The only sign is that it still exists after twice the limit, because requests that are answered
 * take less time.
 *
 * If Slurm tracks processes by cgroups, the job's threads are those in its cgroup, because only
 * root makes cgroups there. They may have any uid: programs started by sudo and newuidmap keep the
 * files that the user has opened. Otherwise the job's threads are those of the job's uid, and
 * these include threads of the user's other jobs. If the job's cgroup was found before and is not
 * found now, no thread counts: either the check has failed, or Slurm has removed the cgroup and
 * the job has no thread.
 *
 * Threads of other jobs may also read this job's mounts and hang there. Only this manager could
 * free them, because their own manager has no access to this connection. But nobody can see where
 * they hang, and a job must not lose its data because another job hangs on storage that does not
 * answer. So threads of other jobs count only while a server of this job is stopped, by its user,
 * a debugger or an administrator. Then threads of any uid count, also those of other users. An
 * abort breaks only this job's mount.
 */
#include "daemon/manager/fuse-watch.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/slurm/job-cgroup.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/mounts.h"

#define TICK_MS 100 /* while requests wait */
#define IDLE_MS 250
#define SLICE_MS 20
#define MAX_GAP_MS 1000

void fuse_watch_init(struct fuse_watch *w, const struct jobdir *dir, const struct state *st,
		     uint64_t limit_ms)
{
	*w = (struct fuse_watch){ .dir = dir,
				  .job = state_get_job(st),
				  .procs = st->procs,
				  .limit_ms = limit_ms,
				  .proc_fd = -1,
				  .look = PROC_LOOK_INIT };
}

void fuse_watch_deinit(struct fuse_watch *w)
{
	proc_look_end(&w->look);
	fd_closep(&w->proc_fd);
}

static struct fuse_watch_thread *find_thread(struct fuse_watch *w, const struct proc_thread *t)
{
	for (size_t i = 0; i < w->n_threads; i++)
		if (w->threads[i].seen.tid == t->tid && w->threads[i].seen.start == t->start)
			return &w->threads[i];
	return NULL;
}

/*
 * A thread that has run since the last pass is removed from the table until it is seen again. So
 * slow threads, however many, leave room for a thread that hangs. If the table is full of other
 * threads, one of these hangs, which is enough.
 */
bool fuse_watch_note(struct fuse_watch *w, const struct proc_thread *t, uint64_t now_ms)
{
	struct fuse_watch_thread *known = find_thread(w, t);

	if (!t->asleep && !t->io)
		return false; /* fuse_watch_end_pass() forgets it */
	if (known && known->seen.switches != t->switches && !t->io) {
		*known = w->threads[--w->n_threads];
		return false;
	}
	if (!known && w->n_threads == FUSE_WATCH_MAX_THREADS)
		return false;
	if (!known) {
		known = &w->threads[w->n_threads++];
		*known = (struct fuse_watch_thread){ .seen = *t, .since_ms = now_ms };
	}
	known->in_pass = true;
	if (t->io && now_ms - known->since_ms < 2 * w->limit_ms)
		return false;
	return now_ms - known->since_ms >= w->limit_ms;
}

void fuse_watch_end_pass(struct fuse_watch *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n_threads; i++) {
		if (!w->threads[i].in_pass)
			continue;
		w->threads[n] = w->threads[i];
		w->threads[n++].in_pass = false;
	}
	w->n_threads = n;
}

/* Returns true if one of our processes was seen stopped within limit_ms. If a server is stopped and
 * continued between two checks, its requests are answered in between. */
static bool has_stopped_server(struct fuse_watch *w, uint64_t now_ms)
{
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (w->procs[i].pid && proc_look_is_stopped(w->proc_fd, w->procs[i].pid))
			w->stopped_ms = now_ms;
	return w->stopped_ms && now_ms - w->stopped_ms < w->limit_ms;
}

/* In v1, Slurm tracks the processes of a job with the freezer controller. The group above a job's
 * is that of the user's jobs in v1, and that of all jobs in v2. */
static int begin_pass(struct fuse_watch *w)
{
	char group[PATH_MAX];
	const int r = job_cgroup_find("freezer", &w->job, group, sizeof(group));
	bool stopped;

	if (w->proc_fd < 0)
		w->proc_fd = privops_open(PRIVOP_OPEN_PROC, 0, 0);
	if (w->proc_fd < 0)
		return w->proc_fd;
	stopped = has_stopped_server(w, clock_ms());
	w->has_group |= r == 0;
	if (r < 0 && w->has_group && !stopped)
		return r;
	if (r == 0 && stopped)
		*strrchr(group, '/') = '\0';
	return proc_look_begin(&w->look, w->proc_fd, r < 0 ? NULL : group,
			       stopped ? PROC_LOOK_ANYBODY : w->job.uid);
}

static void abort_waiting(struct fuse_watch *w, pid_t tid, uint64_t now_ms)
{
	for (unsigned slot = 0; slot < RUNDIR_MAX_SLOTS; slot++) {
		if (!w->waiting_since_ms[slot] || now_ms - w->waiting_since_ms[slot] < w->limit_ms)
			continue;
		if (mounts_abort(w->dir, slot) == 0)
			log_warning("thread %d can't end while a mount does not answer: "
				    "FUSE connection of slot %u aborted",
				    tid, slot);
		w->waiting_since_ms[slot] = 0;
	}
}

/* Returns true if requests of the slot's connection wait. The file can be read only once, so it is
 * opened each time. */
static bool is_waiting(const struct fuse_watch *w, unsigned slot)
{
	_cleanup_(fd_closep) int fd = mounts_open_waiting(w->dir, slot);
	char text[32] = "";

	return read(fd, text, sizeof(text) - 1) > 0 && strtoul(text, NULL, 10) > 0;
}

/* Checks all connections. Returns true if requests wait. */
static bool look_at_connections(struct fuse_watch *w, uint64_t slots)
{
	const uint64_t now_ms = clock_ms();
	bool any = false;

	for (unsigned slot = 0; slot < RUNDIR_MAX_SLOTS; slot++) {
		if (!(slots >> slot & 1) || !is_waiting(w, slot)) {
			w->waiting_since_ms[slot] = 0;
			continue;
		}
		any = true;
		if (!w->waiting_since_ms[slot])
			w->waiting_since_ms[slot] = now_ms;
	}
	return any;
}

/* Begins a pass if none is active, and continues it for SLICE_MS. */
static void look_at_threads(struct fuse_watch *w)
{
	const uint64_t until_ms = clock_ms() + SLICE_MS;
	int r = w->look.active ? 0 : begin_pass(w);
	struct proc_thread t;
	uint64_t now_ms;

	if (r < 0) {
		proc_look_end(&w->look);
		return;
	}
	do {
		r = proc_look_next(&w->look, &t);
		now_ms = clock_ms();
		if (r == PROC_LOOK_THREAD && fuse_watch_note(w, &t, now_ms))
			abort_waiting(w, t.tid, now_ms);
	} while (r != PROC_LOOK_END && now_ms < until_ms);
	if (r != PROC_LOOK_END)
		return;
	proc_look_end(&w->look);
	fuse_watch_end_pass(w);
}

/* A gap between two checks means that the node was suspended, or that we, and probably other
 * processes, got no CPU. A thread is not hung because of this, so the additional time does not
 * count. */
static void leave_out_gap(struct fuse_watch *w)
{
	const uint64_t now_ms = clock_ms(), gap_ms = w->last_ms ? now_ms - w->last_ms : 0;
	const uint64_t excess_ms = gap_ms > MAX_GAP_MS ? gap_ms - MAX_GAP_MS : 0;

	w->last_ms = now_ms;
	for (unsigned slot = 0; slot < RUNDIR_MAX_SLOTS; slot++)
		w->waiting_since_ms[slot] += w->waiting_since_ms[slot] ? excess_ms : 0;
	for (size_t i = 0; i < w->n_threads; i++)
		w->threads[i].since_ms += excess_ms;
}

void fuse_watch_look(struct fuse_watch *w, uint64_t slots)
{
	const bool was_waiting = w->n_threads || w->look.active;

	if (clock_ms() < w->next_ms)
		return;
	leave_out_gap(w);
	if (look_at_connections(w, slots)) {
		look_at_threads(w);
		w->next_ms = clock_ms() + TICK_MS;
		return;
	}
	if (was_waiting) {
		proc_look_end(&w->look);
		w->n_threads = 0;
	}
	w->next_ms = clock_ms() + IDLE_MS;
}

int fuse_watch_get_pause(const struct fuse_watch *w)
{
	const uint64_t now_ms = clock_ms();

	return now_ms < w->next_ms ? (int)(w->next_ms - now_ms) : 0;
}
