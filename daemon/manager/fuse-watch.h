/*
 * fuse-watch: aborts the FUSE connections of a job if one of its threads cannot end because a
 * server does not answer. Slurm drains a node on which a job's process does not end. The watch runs
 * in the manager, which has another uid than the job, because the user must not be able to kill,
 * stop or starve the process that protects the node from him.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/rundir.h"
#include "common/slurm/job-cgroup.h"
#include "daemon/manager/proc-look.h"
#include "daemon/manager/state.h"

struct jobdir;

#define FUSE_WATCH_MAX_THREADS 256

/* A thread that is about to end, and has slept since it was first seen in this state. */
struct fuse_watch_thread {
	struct proc_thread seen;
	uint64_t since_ms;
	bool in_pass; /* the current pass has seen it */
};

struct fuse_watch {
	const struct jobdir *dir;
	struct job_cgroup_job job;
	const struct state_proc *procs; /* our processes, including image servers */
	uint64_t limit_ms;
	uint64_t stopped_ms;	   /* when one of these was last seen stopped; 0: never */
	uint64_t last_ms, next_ms; /* looks; 0: none yet, now */
	uint64_t waiting_since_ms[RUNDIR_MAX_SLOTS]; /* at each look since then; 0: not now */
	bool has_group;				     /* a cgroup of the job was found once */
	int proc_fd;				     /* the node's processes; -1: not opened yet */
	struct proc_look look;
	struct fuse_watch_thread threads[FUSE_WATCH_MAX_THREADS];
	size_t n_threads;
};

/* st is lent until fuse_watch_deinit(). */
void fuse_watch_init(struct fuse_watch *w, const struct jobdir *dir, const struct state *st,
		     uint64_t limit_ms);
void fuse_watch_deinit(struct fuse_watch *w);

/*
 * Makes one check, if it is time for one. slots: the mounted slots; slot 0 is bit 0. A check takes
 * at most some 20 ms, for any number of threads, and the next one continues where it stopped. A
 * connection is aborted if a thread of the job was about to end and slept without a context switch
 * for limit_ms, and the connection had waiting requests at each check in that time. While a server
 * of the job is stopped, threads of other jobs count, too. If there is more than a second between
 * two checks, the additional time does not count.
 */
void fuse_watch_look(struct fuse_watch *w, uint64_t slots);

/* Returns the milliseconds until the next check is due. */
int fuse_watch_get_pause(const struct fuse_watch *w);

/* Stores what a pass has seen of one thread. Returns true if the thread is hung. For
 * fuse_watch_look() and its test. */
bool fuse_watch_note(struct fuse_watch *w, const struct proc_thread *t, uint64_t now_ms);
/* Ends a pass: forgets the threads that it has not seen. */
void fuse_watch_end_pass(struct fuse_watch *w);
