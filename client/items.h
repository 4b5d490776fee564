/*
 * items: parses the values on stagectl's own command line in the same way as the plugin.
 */
#pragma once

#include "common/dataset/dataset.h"

struct error;

/* Reads values (several are joined as script lines are), expands them with this process's
 * directory, home and environment. A mistake: -errno with STAGE_EXIT_USAGE. */
int items_read(struct dataset_list *list, const char *const *values, size_t n_values,
	       struct error *err);

/* Names of the groups of this process, for the rules of the site. Caller frees with
 * items_free_groups(). */
int items_get_groups(char ***groupsp, size_t *n_groupsp);
void items_free_groups(char **groups, size_t n_groups);

/* The login name of this process's user; "" if there is none. Lent. */
const char *items_get_user(void);
