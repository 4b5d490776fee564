/*
 * srun-silent: which nodes of the job have not answered.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Names of the nodes that have answered. */
struct srun_silent {
	char **names;
	size_t n_names;
};

/* Adds a node. If there is no memory, the node is left out. */
void srun_silent_add(struct srun_silent *s, const char *node);
void srun_silent_deinit(struct srun_silent *s);

/* Writes the nodes that have not answered, in a job of n_components: "n2, n3 and 5 more". Writes ""
 * if Slurm does not tell the job's nodes. Runs scontrol for at most 5 s. */
void srun_silent_print(const struct srun_silent *s, uint32_t n_components, char *buf, size_t size);
