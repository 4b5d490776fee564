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
 * Starts the cleaner and the daemon with the given spec text (common/config/spec.h). Returns when
 * the socket accepts connections. d->lock_fd is handed to the cleaner and closed here. If the
 * daemon ends with a failure, the last lines of its log can be read from *report_fdp; otherwise
 * only end of file.
 */
int run_cleaner_start(struct run_dir *d, uint32_t job_id, const char *spec, int *report_fdp,
		      struct error *err);
