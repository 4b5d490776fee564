/*
 * srun-nodes: the nodes of this job and of its components, from Slurm's variables or squeue. Other
 * modules use srun.h.
 */
#pragma once

#include <stdint.h>

#include "common/util/error.h"

#define SRUN_MAX_STEPS 120

/* Returns the number of components of this job, at least 1. */
uint32_t srun_get_n_components(void);

/* Returns the number of nodes of one of n components. If n is 1, the names of Slurm's variables
 * have no component number. */
uint32_t srun_get_component_nodes(uint32_t component, uint32_t n);

/* Asks Slurm how many nodes the job has if only SLURM_JOB_ID is set, as users do to name a job from
 * anywhere. Sets the missing variables. Returns 0, or the exit status with err. */
int srun_learn_n_nodes(struct error *err);

/* Sets SLURM_JOB_ID to the number that Slurm's own variable would have. Users copy the number of a
 * job from squeue, which prints 24_0 for a task of an array and 24+1 for a component. If it is not
 * the job of this process, the variables of that job are removed. */
void srun_resolve_job_id(void);

/* Sets err to code and text. Returns code. */
int srun_refuse(struct error *err, enum stage_exit code, const char *text);
