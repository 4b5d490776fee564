/*
 * job-env: from the daemon's file of variables into a step's environment.
 */
#pragma once

#include <stdint.h>

#include "spank/slurm-compat.h"

/*
 * Copies the NAME=VALUE lines of the file at path: STAGE_DATA_*, and those that tell container
 * tools what to bind, which are added to what the job has set itself. Others are left out. The
 * file is the user's; called as the user. 0 or -errno; -EPERM: it is another user's.
 */
int job_env_copy(spank_t sp, const char *path);

/*
 * Gives the variables that submit_env_set() has set the paths that this job's data has on every
 * node, or will have.
 */
void job_env_place(spank_t sp, uint32_t job_id);

/* Takes STAGE_DATA_* out of the step's environment: another job's, inherited. */
void job_env_drop(spank_t sp);
