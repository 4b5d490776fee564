/*
 * gres: the generic resources that a job asked for, by name alone: what sbatch's --gres says, as a
 * list "nvme+gpu" that travels with the job's spec.
 *
 * The user states it, and nodes have no other source: Slurm does not pass a job's gres to the
 * prolog or to a plugin there (22.05, 24.11).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GRES_SIZE 256 /* of a list of names, with its NUL */

/* Adds the names in text: "nvme:100,gpu:a100:4", "gres/nvme=1", "none". In a value of
 * --tres-per-node (tres), only words with "gres/" count. A name that is not valid in a list, or for
 * which there is no room, is left out. */
void gres_add(char names[static GRES_SIZE], const char *text, bool tres);

/* Returns whether name is in the list. */
bool gres_has(const char *names, const char *name);

/* Returns whether the n bytes are a list as gres_add() makes it, and not empty. */
bool gres_is_list(const char *names, size_t n);
