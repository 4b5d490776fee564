/*
 * step-item: the items that Slurm provides about a step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "spank/slurm-compat.h"

/* A variable of the step's environment; caller frees; NULL: not set. */
char *step_get_env(spank_t sp, const char *name);

/* Is the job a component of a heterogeneous one, and not the first, whose environment it has? */
bool step_is_of_later_component(spank_t sp, uint32_t job_id);
