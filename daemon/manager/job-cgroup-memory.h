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

/* Slurm makes the job's cgroup, then writes the limit, and then makes the cgroups of tasks. */
enum {
	JOBMEM_E_SUCCESS,
	JOBMEM_E_EARLY, /* neither a limit nor a task exists: Slurm may be about to write the
			 * limit */
};

/* Reads the limit and the use, in bytes. A job without a limit may use the machine's memory.
 * Returns JOBMEM_E_* or -ENOENT. */
int job_cgroup_read_memory(const char *dir, int64_t *limitp, int64_t *usedp);

/* Kills the processes in our group (JOB_CGROUP_OURS) of the memory cgroup and removes the group. If
 * the job is over and its directory contains nothing else, removes the directory, too. Returns 0
 * when our group does not exist any more. */
int job_cgroup_remove(const char *dir, enum privop_group which, bool job_over,
		      uint64_t deadline_ms);

/* Moves us and the keeper out of the job's cgroups in every hierarchy. This is required if a job
 * step started the keeper. Returns 0 or -errno: we are still in one of them. */
int job_cgroup_leave(struct error *err);
/* Moves us and the keeper from slurmd's cgroup (v2) to the cgroup of Slurm's own processes, in the
 * scope of the steps. Reason: systemd may kill the processes in slurmd's cgroup when slurmd ends
 * (KillMode=). Does nothing if there is no such cgroup. node: the node's name in Slurm, or NULL. */
void job_cgroup_leave_service(const char *node);
/* Cuts a path of /proc/self/cgroup above the job's part: "/slurm/uid_1/job_2/step_0" -> "/",
 * "/system.slice/slurmstepd.scope/job_2/…" -> "/system.slice/slurmstepd.scope". The job's directory
 * may also have another name (common/protocol/sluid.h). Returns 0, or -ENOENT: the path is not in a
 * job. */
int job_cgroup_parse_above(char *path);
