/*
 * job-env: the variables of a job's data in the environment of a step.
 */
#pragma once

#include <stdint.h>

#include "spank/slurm-compat.h"

struct step;

/*
 * Copies the NAME=VALUE lines of the file at path: STAGE_DATA_*, and the variables of container
 * tools, whose values are added to those of the job. Other lines are left out. The file belongs to
 * the user, and the function is called as the user. 0 or -errno; -EPERM: it belongs to another
 * user.
 */
int job_env_copy(spank_t sp, const char *path);

/*
 * Gives the placeholders that sbatch has set (submit.c) the paths that this job's data has on every
 * node, or will have.
 */
void job_env_place(spank_t sp, uint32_t job_id);

/* Takes STAGE_DATA_* out of the step's environment: another job's, inherited. */
void job_env_drop(spank_t sp);

/* user_init of a step, effective user: the job's variables into the step's environment; 2 s,
 * when the daemon is slow. */
void job_env_set(spank_t sp);

/* Copies the daemon's current variables to the environment of the step, or in task_init of the
 * task. */
void job_env_refresh(spank_t sp, const struct step *step);
