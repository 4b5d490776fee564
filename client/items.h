/*
 * items: parses the values on stagectl's own command line in the same way as the plugin.
 */
#pragma once

#include "common/dataset/dataset.h"

struct error;

/* Reads the values, which are joined as script lines are. Expands them with this process's working
 * directory, home and environment. Returns 0, or -errno with STAGE_EXIT_USAGE in err for a
 * mistake. */
int items_read(struct dataset_list *list, const char *const *values, size_t n_values,
	       struct error *err);

/* Returns the login name of this process's user, or the uid in digits if there is none. Lent. */
const char *items_get_user(void);
