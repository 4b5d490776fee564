/*
 * run-cleaner: the process that `stagectl run` starts, and that starts stagingd and cleans up after
 * it.
 *
 * It owns the run directory, waits for the daemon, and removes everything. It may run longer than
 * the task that started it, because another task of the node may end last. Its stdin, stdout and
 * stderr are not those of the task, so a reader of the task's output does not wait for it.
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
