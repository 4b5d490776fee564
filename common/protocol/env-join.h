/*
 * env-join: variables of the job that are lists of bind mounts of container tools. The job's mounts
 * are added to the user's own ones.
 */
#pragma once

#include <stdbool.h>

/* Returns whether the variable is such a list. */
bool env_join_is_list(const char *name);

/* Returns the new value of the variable `name`, whose value is `old` (NULL: not set). If it is such
 * a list, value is appended to old, unless it is in there already. The caller frees; NULL: no
 * memory. */
char *env_join(const char *name, const char *old, const char *value);
