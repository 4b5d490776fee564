/*
 * env-join: variables of the job that are lists of bind mounts. What the user has in them stays, as
 * with the plugin (spank/job-env.c).
 */
#pragma once

/* What the variable is to be: value, behind what is in the environment if it is such a list and
 * does not have it yet. Caller frees; NULL: no memory. */
char *env_join(const char *name, const char *value);
