/*
 * job-cgroup-memory: the job's memory, and our place in its cgroups (common/slurm/job-cgroup.h).
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/protocol/keeper-privops.h"

struct error;

/* Slurm makes the job's group, then writes the limit, and then makes the groups of tasks. */
enum {
	JOBMEM_E_SUCCESS,
	JOBMEM_E_EARLY, /* there is neither a limit nor a task: Slurm may be about to write the
			   limit */
};

/* Limit and use in bytes. Without a limit of its own the job may have the machine's memory. */
int job_cgroup_read_memory(const char *dir, int64_t *limitp, int64_t *usedp);

/* Kills what is in our group (JOB_CGROUP_OURS) of the memory and removes it. If the job is over,
 * and nothing else is in the job's directory, that is removed, too. 0 when our group is gone. */
int job_cgroup_remove(const char *dir, enum privop_group which, bool job_over,
		      uint64_t deadline_ms);

/* Leaves, and the keeper with us, the cgroups of the job in every hierarchy, as a keeper must that
 * a job step started. -errno: we are in one of them still. */
int job_cgroup_leave(struct error *err);
/* Leaves slurmd's own group in v2, and the keeper with us, for the group of Slurm's own processes
 * in the scope of the steps: systemd may end what is in slurmd's group with slurmd (KillMode=).
 * Without such a group we stay where we are. node: as Slurm calls it, or NULL. */
void job_cgroup_leave_service(const char *node);
/* What is above the job in a path of /proc/self/cgroup: "/slurm/uid_1/job_2/step_0" -> "/",
 * "/system.slice/slurmstepd.scope/job_2/…" -> "/system.slice/slurmstepd.scope", and the same where
 * the job's directory has another name (common/protocol/sluid.h). -ENOENT: not in a job. Cuts path.
 */
int job_cgroup_parse_above(char *path);
