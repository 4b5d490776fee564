/*
 * subprocess: programs that a worker starts beside itself, because they may do what it gives up:
 * the network, other programs. They have a connection to it on WORKER_FD_SOCKET and an empty
 * environment, and end with it.
 */
#pragma once

#include <sys/types.h>

/* Starts the program that lies beside this one. Before the sandbox and before any thread. -ENOENT
 * or -EACCES: there is none. The connection (*sockp) is the caller's. */
int subprocess_start(const char *program, int *sockp, pid_t *pidp);

/* Ends it, whatever it is at, and waits. pid 0: none. */
void subprocess_end(pid_t pid);
