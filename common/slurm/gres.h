/*
 * gres: the names of the generic resources that a job requested with --gres, as a list "nvme+gpu"
 * in the job's spec.
 *
 * Nodes have no other source for it: Slurm does not pass a job's gres to the prolog or to a plugin
 * in it (22.05, 24.11). So it is only what the user's command line says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GRES_SIZE 256 /* of a list of names, with its NUL */

/* Adds the names in text: "nvme:100,gpu:a100:4", "gres/nvme=1", "none". In a value of
 * --tres-per-node (tres), only words with "gres/" count. A name that is not valid in a list, or for
 * which there is no room, is left out. */
void gres_add(char names[static GRES_SIZE], const char *text, bool tres);

/* Adds the names of another list. */
void gres_join(char names[static GRES_SIZE], const char *list);

/* Returns whether name is in the list. */
bool gres_has(const char *names, const char *name);

/* Returns whether the n bytes are a list as gres_add() makes it, and not empty. */
bool gres_is_list(const char *names, size_t n);
