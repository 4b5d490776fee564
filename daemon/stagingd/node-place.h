/*
 * node-place: the place of a node in a list of Slurm's, by stage-slurm where it is installed.
 * Otherwise our own parser finds it (daemon/stagingd/nodelist.h).
 */
#pragma once

#include <stdint.h>

/* Where node stands in list, counted from 0, and how many nodes there are. Blocks for a third of a
 * second at most. 0; -ENOENT: it is not in there; -EINVAL: not a list that can be read. */
int node_place_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);

/* The same by that program alone; -errno: it does not tell. */
int node_place_ask(const char *program, uint32_t timeout_ms, const char *list, const char *node,
		   uint32_t *indexp, uint32_t *n_nodesp);
