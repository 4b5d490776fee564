/*
 * identity: the names of the job's user and groups, which rules and the paths of tiers need.
 */
#pragma once

#include <stddef.h>

struct identity {
	char *user, *group;
	char **groups; /* names of all groups of the process */
	size_t n_groups;
};

/* Reads the names for this process. An id without a name is written as a number. Asks the name
 * service, which may take a while. Returns 0 or -ENOMEM. */
int identity_init(struct identity *id);
void identity_deinit(struct identity *id);
