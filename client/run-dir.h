/*
 * run-dir: the run directory of `stagectl run`, /dev/shm/stage-data-<uid>/<key>
 * (common/protocol/rundir.h): which process owns it, which processes use it, and its removal. Its
 * files have locks (flock), or show by their existence that a task has started:
 *   owner   locked by the cleaner (client/run-cleaner.h), from before the daemon starts until
 *           everything is removed
 *   lock    locked by stagingd as long as it runs; if neither is locked, the directory is a
 *           leftover
 *   users   locked (shared) by each run; a run that can lock it exclusively is the last one
 *   in.<n>  exists if task n of this node has started
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

/* Sets where run directories are made: below dir; NULL: below /dev/shm, or TMPDIR if /dev/shm is
 * not writable. Must be called before the other functions. Returns 0, or -errno with a sentence
 * that says what helps. */
int run_dir_set_base(const char *dir, struct error *err);

/* Writes the path of the directory, /dev/shm/stage-data-<uid>/<key>. key: [A-Za-z0-9._-]. Returns
 * its length, or -ENAMETOOLONG. */
int run_dir_path(char *buf, size_t size, uid_t uid, const char *key);

/* Opens the directory, and makes it if it is missing. Refuses a link and a directory that belongs
 * to another user or is open to others. Removes other directories that killed runs of this user
 * have left. */
int run_dir_open(struct run_dir *d, const char *key, struct error *err);

/* Closes all descriptors, which releases the locks. May be called twice. */
void run_dir_close(struct run_dir *d);

/* Tries to become the owner. Returns 1: this process is the owner (lock_fd), and the files of an
 * earlier owner are removed; 0: another process is the owner, or the directory was removed in
 * between (open it again); -errno. */
int run_dir_try_own(struct run_dir *d, struct error *err);

/* Called by the owner at the end: releases what the manifest lists outside, then removes the
 * directory. */
int run_dir_remove(struct run_dir *d, struct error *err);

/* Joins the users. Returns 0, or -EAGAIN if the last user is just leaving. */
int run_dir_join(struct run_dir *d);

/* Leaves the users. Returns whether this was the last one. */
bool run_dir_leave(struct run_dir *d);

/* Waits until the owner has finished, for at most timeout_s. Returns whether it has. */
bool run_dir_wait_gone(const struct run_dir *d, unsigned timeout_s);

/* Records that task local_id has started. */
void run_dir_check_in(const struct run_dir *d, uint32_t local_id);
/* Waits until n tasks have started, for at most timeout_ms. */
void run_dir_wait_checked_in(const struct run_dir *d, uint32_t n, uint64_t timeout_ms);
