/*
 * nodelist: the place of a node in a list as Slurm writes it: "n[1-3,07],login,r[0-1]c[0-3]".
 */
#pragma once

#include <stdint.h>

/* Finds the index of node in list, counted from 0, and the number of nodes. Returns 0; -ENOENT:
 * node is not in the list; -EINVAL: the list cannot be parsed, or has more than NODELIST_MAX
 * nodes. */
#define NODELIST_MAX 100000
int nodelist_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);
