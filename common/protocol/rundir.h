/*
 * rundir: the names in a job's run directory, with owners and modes.
 *
 *   STAGE_RUN_DIR/              root 0711
 *   STAGE_RUN_DIR/<job>/        root 0711
 *     lock                      root 0600  locked (flock) by the keeper as long as it runs; names
 *                                          the job's user (struct rundir_mark)
 *     state                     root 0600  the job's record (daemon/manager/state.c): the objects
 *                                          to clean up
 *     failed                    root 0644  the reason why nothing is staged here; may be missing
 *     sock                      user 0600  bound by the keeper; stagingd listens on it
 *     m/                        root 0711  mount points of FUSE slots: m/0, m/1, …, root 0711
 *     t/                        root 0711  the job's tmpfs: no user can mount on it
 *       .stage/                 user 0700  env, manifest, tmp/ (datasets that are not ready yet)
 *       data/                   user 0700  STAGE_DATA_DIR: one entry for each dataset
 *
 * Users cannot list the directories of root, because a user who can open a directory for reading
 * can lock it (daemon/keeper/privop-dir.c).
 *
 * Without a keeper (`stagectl run`), the same names are below /dev/shm/stage-data-<uid>/<key>/. All
 * of them belong to the user, and t/ is a plain directory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/sluid.h"

#include "stage-build.h"

#define RUNDIR_LOCK "lock"
#define RUNDIR_STATE "state"
#define RUNDIR_STATE_TMP "state.tmp" /* while it is being written */
#define RUNDIR_FAILED "failed"
#define RUNDIR_SOCK "sock"
#define RUNDIR_MOUNTS "m"
#define RUNDIR_MEMORY "t"
#define RUNDIR_PRIVATE "t/.stage"
#define RUNDIR_ENV "t/.stage/env"
#define RUNDIR_MANIFEST "t/.stage/manifest"
#define RUNDIR_TMP "t/.stage/tmp"
#define RUNDIR_DATA "t/data"
/* The mode of an empty entry in RUNDIR_DATA on which a dataset will be mounted. Datasets themselves
 * have no sticky bit. */
#define RUNDIR_PLACE_MODE 01000
#define RUNDIR_TRASH ".trash"

/* In STAGE_RUN_DIR: while this file exists, no keeper is started (daemon/manager/breaker.h). */
#define RUNDIR_BREAKER ".breaker"
#define RUNDIR_CRASHES ".crashes" /* eight bytes per crash: clock_ms() in host byte order */

/* In STAGE_RUN_DIR, root 0600: the node's figures since boot (common/protocol/counts.h). Exists if
 * metrics are on. */
#define RUNDIR_METRICS ".metrics"

/* The variables of a job's data have this path until the plugin on the node replaces it. It does
 * not exist. */
#define RUNDIR_NOT_STAGED STAGE_RUN_DIR "/NOT-STAGED-ON-THIS-NODE"

#define RUNDIR_MAX_SLOTS 64

/* The beginning of the file `lock`. Root writes it when it makes the directory. Nobody else can
 * write it. */
struct rundir_mark {
	uid_t uid; /* 0: not known */
	gid_t gid;
	char sluid[SLUID_SIZE + 1]; /* "": not known. The struct has no padding, because root
				     * writes its bytes to a file */
};

/* Writes STAGE_RUN_DIR/<job>[/<name>]. Returns the length, or -ENAMETOOLONG. */
int rundir_path(char *buf, size_t size, uint32_t job_id, const char *name);
