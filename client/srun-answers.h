/*
 * srun-answers: the nodes of the job that have answered, and the list of the others.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Names of the nodes that have answered. */
struct srun_answers {
	char **names;
	size_t n_names;
};

/* Adds a node. If there is no memory, the node is left out. */
void srun_answers_add(struct srun_answers *s, const char *node);
void srun_answers_deinit(struct srun_answers *s);

/* Writes the nodes that have not answered, in a job of n_components: "n2, n3 and 5 more". Writes ""
 * if Slurm does not tell the job's nodes. Runs scontrol for at most 5 s. */
void srun_answers_print_missing(const struct srun_answers *s, uint32_t n_components, char *buf,
				size_t size);
