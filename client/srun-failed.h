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
 * Writes "n1, n2 and 5 more: REASON; n9: ANOTHER REASON": nodes with the same reason together, the
 * reason that came first in front. What does not fit is counted. "" where none has failed. Returns
 * buf.
 */
char *srun_failed_print(const struct srun_failed *f, char *buf, size_t size);
