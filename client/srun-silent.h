/*
 * srun-silent: which nodes of the job have not answered.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Names of nodes that have answered. */
struct srun_silent {
	char **names;
	size_t n_names;
};

/* A name that there is no memory for is left out. */
void srun_silent_add(struct srun_silent *s, const char *node);
void srun_silent_deinit(struct srun_silent *s);

/*
 * Writes the nodes of the job, of n_components, that have not answered: "n2, n3 and 5 more"; ""
 * where Slurm does not tell its nodes. Runs scontrol, for at most 5 s.
 */
void srun_silent_print(const struct srun_silent *s, uint32_t n_components, char *buf, size_t size);
