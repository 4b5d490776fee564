/*
 * env-join: variables of the job that are lists of bind mounts. What the user has in them stays, as
 * with the plugin (spank/step-env.c).
 */
#pragma once

/* Returns the new value of the variable. If the variable is such a list, value is appended to what
 * the environment has, unless it is in there already. The caller frees; NULL: no memory. */
char *env_join(const char *name, const char *value);
