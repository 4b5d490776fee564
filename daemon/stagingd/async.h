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

/*
 * Forks; the child has stdin, stdout and stderr and no other descriptor, runs fn(fn_arg) and ends.
 * done(arg, r, err) is called from the loop: r and err are what fn made of it; a child that dies
 * gives -ECHILD, one that is late is killed and gives -ETIMEDOUT. 0 or -errno without done.
 * fn_arg needs to live only as long as this call.
 */
int async_start(struct async **cp, struct loop *l, int (*fn)(void *fn_arg, struct error *err),
		void *fn_arg, uint64_t timeout_ms,
		void (*done)(void *arg, int r, const struct error *err), void *arg);

/* From here on done() is not called; a child that still works is left to itself. Not needed after
 * done(), which frees the task when it returns. */
void async_abandon(struct async *c);
