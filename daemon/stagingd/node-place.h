/*
 * node-place: the place of a node in a node list of Slurm. Our own parser
 * (daemon/stagingd/nodelist.h) finds it. If it cannot parse the list, stage-slurm is asked.
 */
#pragma once

#include <stdint.h>

/* Where node stands in list, counted from 0, and how many nodes there are. Blocks for a third of a
 * second at most. 0; -ENOENT: it is not in there; -EINVAL: not a list that can be read. */
int node_place_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);

/* The same by that program alone; -errno: it does not tell. */
int node_place_ask(const char *program, uint32_t timeout_ms, const char *list, const char *node,
		   uint32_t *indexp, uint32_t *n_nodesp);
