/*
 * node-names: lists of nodes as Slurm writes them, read by libslurm. Slurm's configuration is not
 * needed for it.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* Where node stands in list, counted from 0, and how many nodes there are. 0; -ENOENT: it is not in
 * there; -EINVAL: no list. */
int node_names_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);

/* One name a line. 0, or -EINVAL. */
int node_names_print(const char *list, FILE *out);
