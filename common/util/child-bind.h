/*
 * child-bind: a child process that ends with its parent.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* In the child, which gets sig when its parent ends. false: the parent has ended already, so the
 * signal would never come; the child exits. */
bool child_bind_to(pid_t parent, int sig);
