/*
 * capture: runs a program to its end and keeps what it writes to stdout.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CAPTURE_MAX_SIZE (64 << 20) /* enough for the list of a user with a hundred thousand jobs */

/*
 * Runs argv[0], which is searched in PATH, with /dev/null as stdin and stderr. Returns the exit
 * status (128 + n for a signal), or -ENOENT: no such program, -ETIMEDOUT: the program was killed
 * after timeout_ms, or another -errno. With an exit status, *textp is the output, cut at
 * CAPTURE_MAX_SIZE; the caller frees it.
 */
int capture_run(const char *const *argv, uint64_t timeout_ms, char **textp);

/*
 * Asks Slurm through stage-slurm. If that is not installed or has no answer, runs argv[0] instead.
 * argv: a command line of squeue or scontrol, of at most 15 words, that stage-slurm supports, too
 * (daemon/slurm/main.c). Returns the result of capture_run() for the program that has answered.
 * timeout_ms limits both programs together.
 */
int capture_slurm(const char *const *argv, uint64_t timeout_ms, char **textp);

/* Searches PATH for an executable file of that name. Returns 0 with its path in buf, or -ENOENT. */
int capture_find(const char *name, char *buf, size_t size);
