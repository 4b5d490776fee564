/*
 * jobmem: what Slurm's cgroups say about the job, and our place in them.
 *
 * v1: <memory>/slurm*\/uid_U/job_N; v2: <cgroup2>/system.slice/…slurmstepd.scope/job_N. Neither
 * exists when the prolog starts the keeper; jobmem_find() is asked again until it does.
 */
#pragma once

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* Directory of the job in the hierarchy of a v1 controller, else in v2. 0 or -ENOENT. */
int jobmem_find(const char *controller, uid_t uid, uint32_t job_id, char *buf, size_t size);

/* Limit and use in bytes. Without a limit of its own the job may have the machine's memory. */
int jobmem_read(const char *dir, int64_t *limitp, int64_t *usedp);

/* Makes our group, <job's directory>/JOBMEM_GROUP, beside the steps. It may be there already. */
#define JOBMEM_GROUP "stage-data"
int jobmem_make_group(const char *path, struct error *err);

/* Kills what is in the group and removes it, then the job's directory where nothing else is in
 * it (job_over). 0 when our group is gone. */
int jobmem_remove_group(const char *path, bool job_over, uint64_t deadline_ms);

/* CPUs the job may use: 0; -ENOENT if that is not known. cpus has size bytes. */
int jobmem_get_cpus(uid_t uid, uint32_t job_id, cpu_set_t *cpus, size_t size);
/* "0-3,8" into a set. */
int jobmem_parse_cpus(const char *text, cpu_set_t *cpus, size_t size);

/* Leaves the cgroups of the job in every hierarchy, as a keeper must that a job step started. */
void jobmem_leave(void);
/* What is above the job in a path of /proc/self/cgroup: "/slurm/uid_1/job_2/step_0" -> "/",
 * "/system.slice/slurmstepd.scope/job_2/…" -> "/system.slice/slurmstepd.scope". -ENOENT: not in
 * a job. Cuts path. */
int jobmem_parse_above(char *path);
