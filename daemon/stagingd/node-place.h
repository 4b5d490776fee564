/*
 * node-place: the place of a node in a node list of Slurm. Our own parser
 * (daemon/stagingd/nodelist.h) finds it. If it cannot parse the list, stage-slurm is asked.
 */
#pragma once

#include <stdint.h>

/* Finds the index of node in list, counted from 0, and the number of nodes. Blocks for at most a
 * third of a second. Returns 0; -ENOENT: node is not in the list; -EINVAL: the list cannot be
 * parsed. */
int node_place_find(const char *list, const char *node, uint32_t *indexp, uint32_t *n_nodesp);

/* Does the same, but asks only stage-slurm (program). Returns 0, or -errno if it gives no
 * answer. */
int node_place_ask(const char *program, uint32_t timeout_ms, const char *list, const char *node,
		   uint32_t *indexp, uint32_t *n_nodesp);
