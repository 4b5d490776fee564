/*
 * step-env: the job's variables, as the user, in a step.
 */
#pragma once

#include "spank/slurm-compat.h"

struct step;

/* user_init of a step, effective user: the job's variables into the step's environment; 2 s,
 * when the daemon is slow. */
void step_env_set(spank_t sp);

/* The daemon's variables as they stand now into the environment of the step, or in task_init of
 * the task. */
void step_env_copy(spank_t sp, const struct step *step);
