/*
 * keep: what a user's jobs have left in a disk tier for his next job on the node (keep=):
 * <Path>/stage-keep-<uid>, mode 0700, the user's, made there by root.
 *
 * A dataset is a directory in it, named by the sum of what it was made from and how:
 *
 *	data      the file or the tree
 *	record    a kv; its mtime says when the data was last used
 *	job.<id>  a lease: the job uses it. It counts as long as the job's run directory belongs to
 *	          the user, so a crash leaves no lease that counts
 *
 * "new-<sum>" is being made by the process that has locked it (flock), and "old-<n>" is being
 * removed. All other entries belong to nobody and are removed. A dataset gets and loses its name by
 * rename, while the whole directory is locked: so it exists completely or not at all. Ages are of
 * CLOCK_BOOTTIME. Data of an earlier boot is not used, because it is not known whether its bytes
 * have reached the disk. Everything here runs as the user, who may do anything in this directory:
 * he can harm only himself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

#define KEEP_MAX_MS (7ULL * 24 * 3600 * 1000) /* whatever a record says */
#define KEEP_NAME_SIZE 65		      /* of a sum, in hex */
#define KEEP_DATA "data"

/* Fields of a record: */
#define KEEP_KEY "key"	     /* all that the name is the sum of */
#define KEEP_SOURCE "source" /* for people */
#define KEEP_MS "keep"	     /* how long after its last use it stays */
#define KEEP_BYTES "bytes"
#define KEEP_FILES "files"
#define KEEP_FINGERPRINT "fingerprint" /* of the data, as it was when it was kept */

struct keep {
	int fd;		     /* of the directory; -1: none */
	const char *run_dir; /* where the run directories of jobs are */
};

#define KEEP_INIT                                                                                  \
	{                                                                                          \
		-1, NULL                                                                           \
	}

/* Opens that of the caller in the tier. -ENOENT; -EPERM, -EACCES: it is not his alone, or not open
 * to him. */
int keep_open(struct keep *k, int tier_fd);
/* Makes it his alone again. */
int keep_shut(int tier_fd);
void keep_close(struct keep *k);

/* Waits until the deadline (-ETIMEDOUT). For moments: nothing is copied or removed meanwhile. */
int keep_lock(const struct keep *k, uint64_t deadline_ms);
void keep_unlock(const struct keep *k);

struct keep_entry {
	int fd;
	struct kv *record;
	uint64_t used_ms; /* clock_ms() of its last use */
};

#define KEEP_ENTRY_INIT                                                                            \
	{                                                                                          \
		-1, NULL, 0                                                                        \
	}

/* -ENOENT: there is none; -ESTALE: one that can't be used, by its record. */
int keep_entry_open(const struct keep *k, const char *name, struct keep_entry *e);
void keep_entry_deinit(struct keep_entry *e);

/* A lease of the job's: 0, or 1 if it had one. The directory is locked. */
int keep_entry_take(const struct keep_entry *e, uint32_t job_id);
void keep_entry_drop(const struct keep_entry *e, uint32_t job_id);
/* Writes the record, whole or not at all; the data was used now. fd: of the dataset's directory. It
 * is locked, or nobody else's yet. */
int keep_write_record(int fd, const struct kv *record);
/* Has a job that is not over a lease? Where that can't be read, yes. */
bool keep_entry_is_used(const struct keep *k, const struct keep_entry *e);
/* Does it still have its name? */
bool keep_entry_has_name(const struct keep *k, const struct keep_entry *e, const char *name);

/* Begins one, locked as long as *fdp is open. -EBUSY: somebody else is at it. The directory is
 * locked. */
int keep_begin(const struct keep *k, const char *name, int *fdp);
/* Gives it its name. -EEXIST. The directory is locked. */
int keep_finish(const struct keep *k, const char *name);

/* Takes the name from a dataset, unless a job uses it (-EBUSY). The directory is locked. */
int keep_retire(const struct keep *k, const char *name);
/* Takes the name from whatever it is: keep_empty() removes it. The directory is locked. */
int keep_discard(const struct keep *k, const char *name);
/* Removes entries that have lost their name. Nothing is locked. */
int keep_empty(const struct keep *k, uint64_t deadline_ms);

/* Discards and removes entries that are due: unused for their time or for max_ms, of an earlier
 * boot, incomplete, or unknown. Takes the lock itself. */
int keep_sweep(const struct keep *k, uint64_t max_ms, uint64_t deadline_ms);
/* The same for the caller's directory in the tier. If its mode was changed, other users may have
 * written there, so everything that no job uses is removed. 0 if there is no such directory. */
int keep_sweep_tier(int tier_fd, uint64_t max_ms, uint64_t deadline_ms);
/* Discards and removes the entry that was unused for the longest time. 0: no entry is unused; 1:
 * done. */
int keep_evict_oldest(const struct keep *k, uint64_t deadline_ms);

/* Calls fn for each dataset that may be used. */
int keep_for_each(const struct keep *k,
		  int (*fn)(void *arg, const char *name, const struct keep_entry *e), void *arg);
