/*
 * jobdir: a job's run directory (common/rundir.h) held by descriptors, and its lock.
 *
 * Everything in it is named relative to fd, so it may be renamed to .trash/ below its holder. It
 * and all that holds a mount in it belong to root: the user can't move a path under our feet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

struct jobdir {
	int base_fd; /* STAGE_RUN_DIR, or .trash in it */
	int fd;      /* the directory */
	int lock_fd; /* of `lock`, flocked when jobdir_lock() says so */
	char name[64];
};

#define JOBDIR_INIT { .base_fd = -1, .fd = -1, .lock_fd = -1 }

enum {
	JOBDIR_E_SUCCESS,
	JOBDIR_E_GONE, /* it was removed or moved aside while we waited for the lock, or was not
			* there: whoever did that sees to the rest */
};

void jobdir_deinit(struct jobdir *d);

/* Opens STAGE_RUN_DIR (sub NULL) or a directory in it, made where it is missing. An fd, or
 * -EPERM where it is not root's alone. */
int jobdir_open_base(const char *sub, struct error *err);

/* Makes base/name: 0, -EEXIST if there is one. */
int jobdir_create(struct jobdir *d, int base_fd, const char *name, struct error *err);

/* Opens base/name; base_fd is duplicated. JOBDIR_E_GONE if there is none. */
int jobdir_open(struct jobdir *d, int base_fd, const char *name, struct error *err);

/* Takes the lock: 0, JOBDIR_E_GONE, -EBUSY at deadline_ms (0: at once). */
int jobdir_lock(struct jobdir *d, uint64_t deadline_ms, struct error *err);

void jobdir_unlock(struct jobdir *d);

/* 0: it has its name still; JOBDIR_E_GONE: it has not, who can't wait for the lock may move it
 * aside; -errno: nobody knows, which is not gone. */
int jobdir_check_place(const struct jobdir *d, struct error *err);

/* Moves it to .trash/<name>.<ms>, mounts, lock and all, and stays with it. 0 also if it is gone. */
int jobdir_trash(struct jobdir *d, struct error *err);

/* Is the memory of a job that is over still being freed on this node? */
bool jobdir_is_freeing(void);

/* Calls fn for each directory named by a job (and those in .trash), until it returns < 0. */
int jobdir_for_each(int (*fn)(void *arg, int base_fd, const char *name), void *arg,
		    struct error *err);
