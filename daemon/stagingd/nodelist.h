/*
 * nodelist: the place of a node in a list as Slurm writes it: "n[1-3,07],login,r[0-1]c[0-3]".
 */
#pragma once

#include <stdint.h>

/*
 * Where node stands in list, counted from 0, and how many nodes there are. 0; -ENOENT: it is not
 * in there; -EINVAL: not a list we can read (more than NODELIST_MAX nodes included).
 */
#define NODELIST_MAX 100000
int nodelist_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);
