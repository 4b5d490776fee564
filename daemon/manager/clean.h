/*
 * clean: the only clean-up. The keeper runs it at its end, and `clean` and `reap` run it for a
 * keeper that has died. Each step treats "already gone" as done, so a clean-up that was interrupted
 * by a crash can be run again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/manager/jobdir.h"

struct error;
struct state;

/*
 * Removes the objects that st records, and those in the run directory, whose lock the caller holds:
 * processes, FUSE connections, mounts, the directory's entries, cgroups; then moves it to .trash,
 * which ends the wait of others for the lock, and removes content (as the user) with behind_ms more
 * time, the record and the directory. job_over: the job itself has ended. 0, or JOBDIR_E_GONE: a
 * later run of the job has the name, and the reaper or another clean-up removes the rest; or the
 * first failure: then the record stays, and `reap` tries again.
 */
int clean_release(struct jobdir *d, struct state *st, bool job_over, uint64_t deadline_ms,
		  uint64_t behind_ms, struct error *err);

enum {
	CLEAN_E_OTHERS = JOBDIR_E_GONE + 1, /* the job is another user's */
};

struct clean_options {
	bool end_keeper;     /* ask a living keeper to end, kill it past timeout_ms; else it is let
				alone */
	uint64_t timeout_ms; /* for the keeper, and again for what it leaves to us */
	uid_t only_uid;	     /* of a job's keeper, which may do nothing as another user; 0: clean up
				after any user */
};

/* Cleans up that run directory; *id: where it is afterwards. 0 if there is none (any more).
 * CLEAN_E_OTHERS: its objects are left to the reaper; with end_keeper, its processes are ended as
 * far as root allows it. */
int clean_job(struct jobdir_id *id, const struct clean_options *o, struct error *err);
