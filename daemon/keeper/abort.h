/*
 * abort: breaks a FUSE connection whose server hangs, before it costs the node.
 *
 * A reader whose request the server has taken waits in D state, where SIGKILL can't reach it; Slurm
 * drains a node where a job's process doesn't die. Writing to the connection's abort file frees
 * it in milliseconds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/keeper/proc.h"


/* Aborts the connection mounted on m/<slot>; 0, -ENOENT if nothing is mounted there. */
int abort_slot(int dirfd, unsigned slot);

/* Requests that wait for an answer of m/<slot>'s server; 0 if that is not known. */
unsigned abort_get_waiting(int dirfd, unsigned slot);

/* A process of the user that was killed and can't die, as long as it is the same one. */
struct abort_watch {
	struct proc stuck;
	uint64_t since_ms;
};

/*
 * Looks once at the slots (RUNDIR_MAX_SLOTS, true: in use) and, where requests wait, at the
 * processes of uid. When one has been stuck for limit_ms, aborts every connection that has requests
 * waiting and returns how many. To be called about once a second.
 */
int abort_look(struct abort_watch *w, int dirfd, const bool *slots, uid_t uid, uint64_t limit_ms);

/* A text of /proc/<pid>/status: 1: in D state with SIGKILL pending; 0: not; -1: not the user's. */
int abort_parse_stuck(const char *status, uid_t uid);
