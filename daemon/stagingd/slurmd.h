/*
 * slurmd: finds the process of this node's slurmd, or of psid, which replaces it on ParaStation
 * machines: a process of root with that name.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Searches all processes. Returns the pid of slurmd; 0: it does not run; -EACCES: processes of
 * other users are hidden (proc is mounted with hidepid), so nothing is known. */
pid_t slurmd_find(void);

/* Returns whether the process is a slurmd that has not ended. */
bool slurmd_is(pid_t pid);
