/*
 * srun-failed: which nodes of the job have failed, and why.
 */
#pragma once

#include <stddef.h>

struct srun_failed {
	struct srun_failed_node {
		char *node, *text;
	} * nodes; /* in the order in which they failed */
	size_t n_nodes;
};

/* Adds a node. If there is no memory, the node is left out. */
void srun_failed_add(struct srun_failed *f, const char *node, const char *text);
void srun_failed_deinit(struct srun_failed *f);

/* Makes lines of "n1, n2 and 5 more: REASON", in the order in which the reasons came. Nodes with
 * the same reason share a line. The number of lines is bounded; the last one counts the other
 * nodes. Returns "" if no node has failed, or NULL if there is no memory. The caller frees. */
char *srun_failed_to_lines(const struct srun_failed *f);
