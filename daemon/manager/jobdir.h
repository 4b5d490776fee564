/*
 * jobdir: a job's run directory (common/protocol/rundir.h) held by descriptor, its lock and its
 * record.
 *
 * All changes in it are made by the keeper (privops.h). All names are relative to the directory's
 * descriptor, so the directory may be moved to .trash/ while it is in use. It and all directories
 * that contain mounts belong to root, so the user cannot rename a part of a path that we use.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/protocol/keeper-privops.h"

struct error;
struct state;
struct statx;

/* The name of a directory: <job>; in .trash also <job>.<aside_ms>. */
struct jobdir_id {
	uint32_t job_id;
	uint64_t aside_ms; /* 0: the name has no such part */
	bool in_trash;
};

struct jobdir {
	struct jobdir_id id;
	uint32_t dir; /* the keeper's number for it (privops.h); 0: none */
	int fd;	      /* O_PATH, for looking up names in it */
	uid_t uid;    /* owner of the job by root's mark; 0: not known */
	gid_t gid;
};

#define JOBDIR_INIT                                                                                \
	{                                                                                          \
		.fd = -1                                                                           \
	}

enum {
	JOBDIR_E_SUCCESS,
	JOBDIR_E_GONE, /* the directory did not exist, or was removed or moved aside while we
			* waited for the lock; the process that did this cleans up */
};

void jobdir_deinit(struct jobdir *d);

/* Opens STAGE_RUN_DIR, or .trash in it. Creates it if it is missing. Returns an fd or -errno.
 * -EPERM: a directory or link of the path does not belong to root, or others may write to it. */
int jobdir_open_base(bool trash, struct error *err);

/* Creates and opens the directory of a job. Returns 0 or -errno; -EEXIST: it exists already.
 * STAGE_RUN_DIR must be open. */
int jobdir_create(struct jobdir *d, uint32_t job_id, struct error *err);

/* Opens a directory. Returns 0, JOBDIR_E_GONE if it does not exist, or -errno. STAGE_RUN_DIR, or
 * .trash, must be open. */
int jobdir_open(struct jobdir *d, const struct jobdir_id *id, struct error *err);

/* Makes the keeper hold the lock until jobdir_unlock() or jobdir_deinit(). Returns 0;
 * JOBDIR_E_GONE; -EBUSY: the lock was not free until deadline_ms (0: does not wait); -EPERM: we
 * belong to a job's keeper, and the directory may belong to another user's job. */
int jobdir_lock(const struct jobdir *d, uint64_t deadline_ms, struct error *err);

void jobdir_unlock(const struct jobdir *d);

/* Returns 0 if the directory still has its name. JOBDIR_E_GONE: it was renamed, because a process
 * that cannot wait for the lock may move it aside; -errno: this is not known, so it must not be
 * treated as gone. */
int jobdir_check_place(const struct jobdir *d, struct error *err);

/* Moves the directory to .trash/<name>.<ms> with its mounts and its lock; d stays valid. Returns 0,
 * also if the directory is gone, or -errno. */
int jobdir_trash(struct jobdir *d, struct error *err);

/* Removes a file or an empty directory in it. slot: only for PRIVOP_NAME_SLOT. Returns 0, also if
 * the name does not exist, or -errno. */
int jobdir_remove(const struct jobdir *d, enum privop_name name, uint32_t slot, struct error *err);
/* Removes the directory itself, which must be empty. Returns as jobdir_remove() does. */
int jobdir_remove_itself(const struct jobdir *d, struct error *err);

/* Reads a file in the directory as a string, at most size - 1 bytes. Returns the length or
 * -errno. */
int jobdir_read_text(const struct jobdir *d, enum privop_file file, char *buf, size_t size);

/* Read and replace the record (state.h). Return 0 or -errno; after a failed read, *st is zeroed. */
int jobdir_read_state(const struct jobdir *d, struct state *st);
int jobdir_write_state(const struct jobdir *d, const struct state *st);

/* Sets uid and gid of st to the job's owner, by root's mark or else by the job's socket. For a job
 * whose record is lost. No user can mount anything on the socket. If neither exists, st does not
 * change. */
void jobdir_find_owner(const struct jobdir *d, struct state *st);

/* Returns true while the memory of a job that is over is still being freed on this node. */
bool jobdir_is_freeing(void);

/* Calls fn for each job's directory, then for those in .trash, until fn returns < 0. Returns this,
 * or a failure of its own, or 0. */
int jobdir_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, struct error *err);
