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

#define KEEP_MAX_MS (7ULL * 24 * 3600 * 1000) /* upper limit for the value in a record */
#define KEEP_NAME_SIZE 65		      /* of a sum in hex, and the NUL */
#define KEEP_DATA "data"

/* Fields of a record: */
#define KEEP_KEY "key"	     /* the text of which the name is the sum */
#define KEEP_SOURCE "source" /* for people */
#define KEEP_MS "keep"	     /* time for which the dataset may be unused */
#define KEEP_BYTES "bytes"
#define KEEP_FILES "files"
#define KEEP_FINGERPRINT "fingerprint" /* of the data when it was kept */

struct keep {
	int fd;		     /* of the user's directory; -1: none */
	const char *run_dir; /* parent of the jobs' run directories */
};

#define KEEP_INIT                                                                                  \
	{                                                                                          \
		-1, NULL                                                                           \
	}

/* Opens the caller's directory in the tier. Returns -ENOENT if there is none; -EPERM or -EACCES if
 * others may use it, or the caller may not. */
int keep_open(struct keep *k, int tier_fd);
/* Restores the directory's mode, so that only the caller can use it. */
int keep_shut(int tier_fd);
void keep_close(struct keep *k);

/* Locks the directory. Waits until the deadline, then returns -ETIMEDOUT. The lock is held only for
 * short operations; data is copied and removed without it. */
int keep_lock(const struct keep *k, uint64_t deadline_ms);
void keep_unlock(const struct keep *k);

struct keep_entry {
	int fd;
	struct kv *record;
	uint64_t used_ms; /* clock_ms() of the last use */
};

#define KEEP_ENTRY_INIT                                                                            \
	{                                                                                          \
		-1, NULL, 0                                                                        \
	}

/* Returns -ENOENT if there is no entry, or -ESTALE if its record makes it unusable. */
int keep_entry_open(const struct keep *k, const char *name, struct keep_entry *e);
void keep_entry_deinit(struct keep_entry *e);

/* Gives the job a lease. Returns 0, or 1 if the job has one already. The directory must be
 * locked. */
int keep_entry_take(const struct keep_entry *e, uint32_t job_id);
void keep_entry_drop(const struct keep_entry *e, uint32_t job_id);
/* Writes the record atomically and sets the time of the last use to now. fd: the dataset's
 * directory, which must be locked or not visible to others yet. */
int keep_write_record(int fd, const struct kv *record);
/* Returns whether a running job has a lease. If this cannot be determined, returns true. */
bool keep_entry_is_used(const struct keep *k, const struct keep_entry *e);
/* Returns whether the entry still has this name. */
bool keep_entry_has_name(const struct keep *k, const struct keep_entry *e, const char *name);

/* Begins a new dataset, which is locked as long as *fdp is open. Returns -EBUSY if another process
 * is making it. The directory must be locked. */
int keep_begin(const struct keep *k, const char *name, int *fdp);
/* Gives a new dataset its name. Returns -EEXIST if the name is in use. The directory must be
 * locked. */
int keep_finish(const struct keep *k, const char *name);

/* Takes the name from a dataset, so that it can be removed. Returns -EBUSY if a job uses it. The
 * directory must be locked. */
int keep_retire(const struct keep *k, const char *name);
/* Takes the name from any entry; keep_empty() removes it later. The directory must be locked. */
int keep_discard(const struct keep *k, const char *name);
/* Removes entries that have lost their names. The directory is not locked. */
int keep_empty(const struct keep *k, uint64_t deadline_ms);

/* Discards and removes the entries that are due: unused for their time or for max_ms, from an
 * earlier boot, incomplete, or unknown. Locks the directory itself. */
int keep_sweep(const struct keep *k, uint64_t max_ms, uint64_t deadline_ms);
/* Does the same for the caller's directory in the tier. If its mode was changed, other users may
 * have written to it, so everything that no job uses is removed. Returns 0 if there is no such
 * directory. */
int keep_sweep_tier(int tier_fd, uint64_t max_ms, uint64_t deadline_ms);
/* Discards and removes the entry that was unused for the longest time. Returns 0: all entries are
 * in use; 1: an entry was removed. */
int keep_evict_oldest(const struct keep *k, uint64_t deadline_ms);

/* Calls fn for each dataset that can be used. */
int keep_for_each(const struct keep *k,
		  int (*fn)(void *arg, const char *name, const struct keep_entry *e), void *arg);
