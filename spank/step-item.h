/*
 * step-item: the items that Slurm provides about a step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/slurm-compat.h"

/* Returns the value of a variable in the step's environment, or NULL if it is not set. The caller
 * frees. */
char *step_get_env(spank_t sp, const char *name);

/* Returns whether the job is a component of a heterogeneous job other than the first. It then has
 * the environment of the first component. */
bool step_is_of_later_component(spank_t sp, uint32_t job_id);
