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

/* A node that there is no memory for is left out. */
void srun_failed_add(struct srun_failed *f, const char *node, const char *text);
void srun_failed_deinit(struct srun_failed *f);

/*
 * Lines of "n1, n2 and 5 more: REASON", the reason that came first in front: nodes with the same
 * reason share a line. There are few lines, whatever the number of nodes and reasons: the last one
 * counts the other nodes. "" if none has failed; NULL: no memory. The caller frees.
 */
char *srun_failed_to_lines(const struct srun_failed *f);
