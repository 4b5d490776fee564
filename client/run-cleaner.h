/*
 * run-cleaner: the process that stands between `stagectl run` and its stagingd.
 *
 * It outlives the task that started it (another task of the node may be the last to leave),
 * owns the run directory, waits for the daemon and removes what there was. Its stdin,
 * stdout and stderr are not the task's, so nobody waits for them.
 */
#pragma once

#include <stdint.h>

struct error;
struct run_dir;

/*
 * Starts cleaner and daemon with the given spec text (common/config/spec.h) and returns when the
 * socket can be connected to. d->lock_fd goes to the cleaner (closed here). *report_fdp: the last
 * lines of the daemon's log come there if it ends with a failure; else nothing but the end.
 */
int run_cleaner_start(struct run_dir *d, uint32_t job_id, const char *spec, int *report_fdp,
		      struct error *err);
