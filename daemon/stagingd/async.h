/*
 * async: does work that may block (removing a tree, making a directory on a disk) in a child
 * process with a deadline, so that the daemon never waits for a file system.
 */
#pragma once

#include <stdint.h>

#include "common/util/cleanup.h"

struct async;
struct error;
struct loop;

/* Forks. The child has stdin, stdout, stderr and no other descriptor; it runs fn(fn_arg) and ends.
 * done(arg, r, err) is called from the loop with the result of fn. r is -ECHILD if the child died,
 * and -ETIMEDOUT if it was late and was killed. Returns 0, or -errno; then done is not called.
 * fn_arg must live only as long as this call. */
int async_start(struct async **cp, struct loop *l, int (*fn)(void *fn_arg, struct error *err),
		void *fn_arg, uint64_t timeout_ms,
		void (*done)(void *arg, int r, const struct error *err), void *arg);

/* Prevents the call of done(); a child that still works is not stopped. Not needed after done(),
 * because the task is freed when done() returns. */
void async_abandon(struct async *c);
