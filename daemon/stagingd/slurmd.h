/*
 * slurmd: finds the process of this node's slurmd, or of psid, which replaces it on ParaStation
 * machines: a process of root with that name.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Looks through all processes. 0: there is none; -EACCES: those of others are not shown to us (proc
 * is mounted with hidepid), so that nothing is known. */
pid_t slurmd_find(void);

/* It is one, and has not ended. */
bool slurmd_is(pid_t pid);
