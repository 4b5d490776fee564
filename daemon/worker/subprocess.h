/*
 * subprocess: programs that a worker starts because they need rights that it gives up: the network,
 * or starting other programs. They have a connection to the worker on WORKER_FD_SOCKET and an empty
 * environment, and end with the worker.
 */
#pragma once

#include <sys/types.h>

/* Starts a program from the directory of this one. Call it before the sandbox is entered and before
 * any thread starts. The caller owns *sockp, the connection to it. Returns 0 or -errno; -ENOENT or
 * -EACCES: there is no such program. */
int subprocess_start(const char *program, int *sockp, pid_t *pidp);

/* Kills the process and waits for its end. pid 0: does nothing. */
void subprocess_end(pid_t pid);
