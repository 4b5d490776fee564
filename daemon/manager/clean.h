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
 * processes, FUSE connections, mounts, the directory's entries, cgroups. Then moves the directory
 * to .trash, so that processes that wait for the lock can continue. Then removes the content (as
 * the user), the record and the directory; for this, the deadline is later_ms later. job_over: the
 * job itself has ended.
 * Returns 0, JOBDIR_E_GONE, or the first failure. JOBDIR_E_GONE: a later run of the job uses the
 * directory's name, and the reaper or another clean-up removes the rest. After a failure the record
 * stays, and `reap` tries again.
 */
int clean_release(struct jobdir *d, struct state *st, bool job_over, uint64_t deadline_ms,
		  uint64_t later_ms, struct error *err);

enum {
	CLEAN_E_OTHERS = JOBDIR_E_GONE + 1, /* the job belongs to another user */
};

struct clean_options {
	bool end_keeper;     /* ask a living keeper to end, and kill it after timeout_ms; otherwise
			      * do nothing if the keeper lives */
	uint64_t timeout_ms; /* time for the keeper to end, and again for the clean-up */
	uid_t only_uid;	     /* the caller is a job's keeper, which may act only as this user; 0:
			      * clean up after any user */
};

/* Cleans up the run directory *id, and sets *id to the place where the directory is afterwards.
 * Returns 0, also if there is no such directory; a failure; or CLEAN_E_OTHERS: the job's objects
 * are left to the reaper. In this case, end_keeper ends the job's processes as far as root allows
 * it. */
int clean_job(struct jobdir_id *id, const struct clean_options *o, struct error *err);
