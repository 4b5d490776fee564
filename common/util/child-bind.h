/*
 * child-bind: a child process that ends with its parent.
 */
#pragma once

#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

/* In the child, which gets sig when its parent ends. false: the parent has ended already, so the
 * signal would never come; the child exits. */
static inline bool child_bind_to(pid_t parent, int sig)
{
	return prctl(PR_SET_PDEATHSIG, sig, 0, 0, 0) == 0 && getppid() == parent;
}
