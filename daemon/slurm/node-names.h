/*
 * node-names: lists of nodes as Slurm writes them, read by libslurm. Slurm's configuration is not
 * needed for it.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* Finds the place of a node in a list, from 0, and the number of nodes. Returns 0; -ENOENT: it is
 * not in the list; -EINVAL: not a list. */
int node_names_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);

/* Prints one name on each line. Returns 0, or -EINVAL: not a list. */
int node_names_print(const char *list, FILE *out);
