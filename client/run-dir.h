/*
 * run-dir: the run directory of `stagectl run`, /dev/shm/stage-data-<uid>/<key>
 * (common/protocol/rundir.h): which process owns it, which processes use it, and its removal. Its
 * files have locks (flock), or show by their existence that a task has started:
 *   owner   held by the cleaner (client/run-cleaner.h) from before the daemon to the very end
 *   lock    held by stagingd as long as it lives; a directory where nobody holds either is a
 *           leftover
 *   users   held shared by each run that uses them; who can have it alone is the last one
 *   in.<n>  task n of this node has come
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct error;

struct run_dir {
	int base_fd, fd; /* -1: none */
	int lock_fd, users_fd;
	char key[128];
	char path[PATH_MAX];
};

#define RUN_DIR_NONE                                                                               \
	{                                                                                          \
		.base_fd = -1, .fd = -1, .lock_fd = -1, .users_fd = -1                             \
	}

/*
 * Where run directories are: below dir; NULL: below /dev/shm, or TMPDIR where that is not writable.
 * Before the others; 0, or a sentence that says what helps.
 */
int run_dir_set_base(const char *dir, struct error *err);

/* Where it is: /dev/shm/stage-data-<uid>/<key>. key: [A-Za-z0-9._-]. The length, or -ENAMETOOLONG.
 */
int run_dir_path(char *buf, size_t size, uid_t uid, const char *key);

/* Makes it where it is missing. A directory that is somebody else's, open to others or a link is
 * refused. What killed runs of this user left beside it is taken away. */
int run_dir_open(struct run_dir *d, const char *key, struct error *err);

/* Closes what is open; locks go with it. Twice is fine. */
void run_dir_close(struct run_dir *d);

/* 1: the directory is ours (lock_fd), and what an earlier owner left is gone; 0: it is held, or the
 * directory was removed in between (open it again); -errno. */
int run_dir_try_own(struct run_dir *d, struct error *err);

/* For the owner, at the end: releases by the manifest what is outside, removes all of it. */
int run_dir_remove(struct run_dir *d, struct error *err);

/* Joins the users. 0, or -EAGAIN: the last one is just leaving. */
int run_dir_join(struct run_dir *d);

/* Leaves them. true: it was the last one. */
bool run_dir_leave(struct run_dir *d);

/* Until the owner is through with everything, timeout_s at most. true: it is. */
bool run_dir_wait_gone(const struct run_dir *d, unsigned timeout_s);

/* Task local_id has come. */
void run_dir_check_in(const struct run_dir *d, uint32_t local_id);
/* Until n tasks have come, timeout_ms at most. */
void run_dir_wait_checked_in(const struct run_dir *d, uint32_t n, uint64_t timeout_ms);
