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

/* Of this process. What has no name gets its number. Asks the name service, which may take a
 * while. -ENOMEM. */
int identity_init(struct identity *id);
void identity_deinit(struct identity *id);
