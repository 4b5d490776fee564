/*
 * work-dir: the directory in which a task begins.
 */
#pragma once

#include "spank/slurm-compat.h"

/* Enters the directory from which srun was called, if it is in the job's data. slurmstepd has tried
 * this with root's real uid, which FUSE refuses for a mounted dataset, so slurmstepd has used /tmp.
 * Called in task_init, as the user. */
void work_dir_enter(spank_t sp);
