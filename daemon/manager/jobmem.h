/*
 * jobmem: the job's memory, and our place in its cgroups (common/slurm/jobgroup.h).
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-acts.h"

/* Limit and use in bytes. Without a limit of its own the job may have the machine's memory. */
int jobmem_read(const char *dir, int64_t *limitp, int64_t *usedp);

/* Kills what is in our group (ACT_GROUP) of the memory and removes it, then the job's directory, dir, where
 * nothing else is in it (job_over). 0 when our group is gone. */
int jobmem_remove_group(const char *dir, enum act_group which, bool job_over, uint64_t deadline_ms);

/* Leaves, and the keeper with us, the cgroups of the job in every hierarchy, as a keeper must that a job step started. */
void jobmem_leave(void);
/* What is above the job in a path of /proc/self/cgroup: "/slurm/uid_1/job_2/step_0" -> "/",
 * "/system.slice/slurmstepd.scope/job_2/…" -> "/system.slice/slurmstepd.scope". -ENOENT: not in
 * a job. Cuts path. */
int jobmem_parse_above(char *path);
