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

/* A directory's name: <job>, or in .trash <job>.<aside_ms>. */
struct jobdir_id {
	uint32_t job_id;
	uint64_t aside_ms; /* 0: none */
	bool in_trash;
};

struct jobdir {
	struct jobdir_id id;
	uint32_t dir; /* its number at the keeper; 0: none */
	int fd;	      /* to look into it */
	uid_t uid;    /* whose it is by root's mark; 0: not known */
	gid_t gid;
};

#define JOBDIR_INIT                                                                                \
	{                                                                                          \
		.fd = -1                                                                           \
	}

enum {
	JOBDIR_E_SUCCESS,
	JOBDIR_E_GONE, /* it was removed or moved aside while we waited for the lock, or did not
			* exist; the process that did this cleans up */
};

void jobdir_deinit(struct jobdir *d);

/* Opens STAGE_RUN_DIR or .trash in it, made where it is missing. An fd, or -EPERM where it is not
 * root's alone. */
int jobdir_open_base(bool trash, struct error *err);

/* Makes the directory of a job: 0, -EEXIST if there is one. STAGE_RUN_DIR is open. */
int jobdir_create(struct jobdir *d, uint32_t job_id, struct error *err);

/* Opens one. JOBDIR_E_GONE if there is none. STAGE_RUN_DIR, or .trash, is open. */
int jobdir_open(struct jobdir *d, const struct jobdir_id *id, struct error *err);

/* Has the keeper take the lock, until jobdir_unlock() or jobdir_deinit(): 0, JOBDIR_E_GONE, -EBUSY
 * at deadline_ms (0: at once); -EPERM: the keeper is a job's, and that may be another user's. */
int jobdir_lock(const struct jobdir *d, uint64_t deadline_ms, struct error *err);

void jobdir_unlock(const struct jobdir *d);

/* 0: it still has its name; JOBDIR_E_GONE: it was renamed, because a process that cannot wait for
 * the lock may move it aside; -errno: this is not known, so it must not be treated as gone. */
int jobdir_check_place(const struct jobdir *d, struct error *err);

/* Moves it to .trash/<name>.<ms>, mounts, lock and all, and stays with it. 0 also if it is gone. */
int jobdir_trash(struct jobdir *d, struct error *err);

/* Removes a file or an empty directory in it; slot: of PRIVOP_NAME_SLOT. 0 also if there is none.
 */
int jobdir_remove(const struct jobdir *d, enum privop_name name, uint32_t slot, struct error *err);
/* And itself, when it is empty. */
int jobdir_remove_itself(const struct jobdir *d, struct error *err);

/* Reads a file of it as a text, cut to size: its length, or -errno. */
int jobdir_read_text(const struct jobdir *d, enum privop_file file, char *buf, size_t size);

/* The record (state.h): read, zeroed on failure; replaced. */
int jobdir_read_state(const struct jobdir *d, struct state *st);
int jobdir_write_state(const struct jobdir *d, const struct state *st);

/* Whose the job is by its socket, where the record is lost; nobody can mount anything on that. Sets
 * uid and gid of st, if there is one. */
void jobdir_find_owner(const struct jobdir *d, struct state *st);

/* Is the memory of a job that is over still being freed on this node? */
bool jobdir_is_freeing(void);

/* Calls fn for each directory named by a job (and those in .trash), until it returns < 0. */
int jobdir_for_each(int (*fn)(void *arg, const struct jobdir_id *id), void *arg, struct error *err);
