/*
 * capture: runs a program to its end and keeps what it writes to stdout.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CAPTURE_MAX_SIZE (64 << 20) /* a user may have a hundred thousand jobs */

/*
 * argv[0] is looked for in PATH; stdin and stderr are /dev/null. Returns the exit status (128 +
 * n for a signal), with the text (cut at CAPTURE_MAX_SIZE) in *textp, which the caller frees; or
 * -ENOENT: no such program, -ETIMEDOUT: it was killed after timeout_ms, -errno.
 */
int capture_run(const char *const *argv, uint64_t timeout_ms, char **textp);

/*
 * Asks Slurm by stage-slurm or, where that is not installed or can't tell, by argv[0]. argv:
 * squeue's or scontrol's, at most 15 words that stage-slurm knows as well (daemon/slurm/main.c).
 * Returns what capture_run() does of the program that has answered; both have timeout_ms together.
 */
int capture_slurm(const char *const *argv, uint64_t timeout_ms, char **textp);

/* Where PATH has an executable file of that name: 0 with its path in buf, or -ENOENT. */
int capture_find(const char *name, char *buf, size_t size);
