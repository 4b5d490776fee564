/*
 * step-id: says from SLURM_STEP_ID whether this process is a task that srun has started. The batch
 * script and the shell of salloc are steps, too, but have no tasks beside them.
 */
#pragma once

#include <stdbool.h>

/* step_id: the variable's value, or NULL. Slurm before 26.05 does not set it for a batch script. */
bool step_id_is_of_srun(const char *step_id);
