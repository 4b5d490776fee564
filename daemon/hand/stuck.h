/*
 * stuck: processes of the user that were killed and can't die.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct stuck {
	pid_t pid;      /* 0: none */
	uint64_t start; /* field 22 of /proc/<pid>/stat: what tells it from a later one */
};

/* Looks for one among the processes of uid. */
void stuck_find(struct stuck *s, uid_t uid);

/* A text of /proc/<pid>/status: 1: in D state with SIGKILL pending; 0: not; -1: not the user's. */
int stuck_parse(const char *status, uid_t uid);
