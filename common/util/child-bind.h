/*
 * child-bind: a child process that ends with its parent.
 */
#pragma once

#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Called in the child, which gets sig when its parent ends. Returns false if the parent has ended
 * already: the signal would never come, so the child must exit. */
static inline bool child_bind_to(pid_t parent, int sig)
{
	return prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0) == 0 && getppid() == parent;
}
