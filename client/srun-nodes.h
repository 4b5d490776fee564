/*
 * srun-nodes: the nodes of this job and of its components, from Slurm's variables or squeue. Other
 * modules use srun.h.
 */
#pragma once

#include <stdint.h>

#include "common/util/error.h"

#define SRUN_MAX_STEPS 120

/* At least 1. */
uint32_t srun_get_n_components(void);

/* component: of n; 1 component has no number in its variables. */
uint32_t srun_get_component_nodes(uint32_t component, uint32_t n);

/* SLURM_JOB_ID alone names a job from anywhere: how many nodes it has Slurm knows. Sets the
 * variables that are missing. 0, or the exit status with err. */
int srun_learn_n_nodes(struct error *err);

/* Users copy the number of a job from squeue, which prints 24_0 for a task of an array and 24+1 for
 * a component. Sets SLURM_JOB_ID to the number that Slurm's own variable would have. */
void srun_resolve_job_id(void);

/* Sets err, returns code. */
int srun_refuse(struct error *err, enum stage_exit code, const char *text);
