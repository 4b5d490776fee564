/*
 * subprocess: programs that a worker starts because they need rights that it gives up: the network,
 * or starting other programs. They have a connection to the worker on WORKER_FD_SOCKET and an empty
 * environment, and end with the worker.
 */
#pragma once

#include <sys/types.h>

/* Starts the program that lies beside this one. Before the sandbox and before any thread. -ENOENT
 * or -EACCES: there is none. The connection (*sockp) is the caller's. */
int subprocess_start(const char *program, int *sockp, pid_t *pidp);

/* Ends it, whatever it is at, and waits. pid 0: none. */
void subprocess_end(pid_t pid);
