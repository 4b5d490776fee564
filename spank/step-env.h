/*
 * step-env: the variables of a job's data (STAGE_DATA_*) in the environment of steps and tasks.
 */
#pragma once

#include <stdint.h>

#include "spank/slurm-compat.h"

struct step;

/* Copies the NAME=VALUE lines of the file at path: STAGE_DATA_*, and the variables of container
 * tools, whose values are added to the job's values. Skips other lines. Must be called as the user,
 * who must own the file. Returns 0 or -errno; -EPERM: the file belongs to another user. */
int step_env_copy(spank_t sp, const char *path);

/* Replaces the placeholders that sbatch has set (submit.c) by the paths that this job's data has,
 * or will have, on each node. */
void step_env_place(spank_t sp, uint32_t job_id);

/* Removes STAGE_DATA_* from the step's environment; the step has inherited them from another
 * job. */
void step_env_drop(spank_t sp);

/* Called in user_init of a step, as the effective user. Puts the job's variables into the step's
 * environment. Takes up to 2 s if the daemon is slow. */
void step_env_set(spank_t sp);

/* Copies the daemon's current variables to the environment of the step; in task_init, to the
 * environment of the task. */
void step_env_refresh(spank_t sp, const struct step *step);
