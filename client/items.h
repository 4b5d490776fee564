/*
 * items: parses the values on stagectl's own command line in the same way as the plugin.
 */
#pragma once

#include "common/dataset/dataset.h"

struct error;

/* Parses one value. Returns 0, or -errno with STAGE_EXIT_USAGE in err for a mistake. */
int items_parse(struct dataset_list *list, const char *value, struct error *err);

/* If the file of list->items[i] does not exist and another item was probably meant, returns -errno
 * with a text that suggests it. Checks only these cases, because a file system may hang. */
int items_check(const struct dataset_list *list, size_t i, const char *value, struct error *err);

/* Reads the values, which are joined as script lines are. Expands them with this process's working
 * directory, home and environment, and checks each item. Returns as items_parse(). */
int items_read(struct dataset_list *list, const char *const *values, size_t n_values,
	       struct error *err);

/* Returns the login name of this process's user, or the uid in digits if there is none. Lent. */
const char *items_get_user(void);
