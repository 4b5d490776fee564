/*
 * job-cgroup: where Slurm's cgroups of a job are.
 *
 * v1: <controller>/slurm*\/uid_U/job_N. v2: <cgroup2>/SLICE/…slurmstepd.scope/NAME. SLICE is
 * system.slice, or what CgroupSlice= of Slurm 25.11 names. NAME is job_N, and from Slurm 26.05 on
 * the job's SLUID (common/protocol/sluid.h). Where the SLUID is not known, the job's is the
 * directory in which Slurm's step daemon of that job runs.
 *
 * Neither exists when the prolog starts staging, so callers ask again until it does. The
 * directories above the jobs exist since slurmd was started (seen on 22.05). If no plugin of Slurm
 * makes cgroups, they never exist.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/mountinfo.h"

#define JOB_CGROUP_MAX_CONTROLLERS 5

/* The name of our group in a job's directory of the memory hierarchy, next to the groups of the
 * steps. In other hierarchies there is no such group: a cpuset below the job's would keep Slurm
 * from changing the job's CPUs. */
#define JOB_CGROUP_OURS "stage-data"

/* Identifies the job whose cgroups are looked for. */
struct job_cgroup_job {
	uid_t uid;
	uint32_t job_id;
	const char *sluid; /* NULL or "": not known */
};

/* The mount points of the hierarchies, found in one pass over the mount table. All zeros: not read
 * yet. */
struct job_cgroup_mounts {
	bool is_complete; /* each hierarchy that was asked for is mounted, and stays mounted */
	int r;		  /* 0, or -errno if the table cannot be read */
	struct mountinfo_query v1[JOB_CGROUP_MAX_CONTROLLERS + 1]; /* the last one is for v2 */
	size_t n;
};

/* Reads the mount table, unless m is complete. n: at most JOB_CGROUP_MAX_CONTROLLERS. The same
 * controllers must be given each time. */
void job_cgroup_read_mounts(struct job_cgroup_mounts *m, const char *const *controllers, size_t n);

/* Does the same as job_cgroup_find() for one of these controllers. */
int job_cgroup_find_in(struct job_cgroup_mounts *m, size_t controller,
		       const struct job_cgroup_job *job, char *buf, size_t size);

/* Finds the directory of the job in the hierarchy of a v1 controller, or else in v2. Returns 0;
 * -ENOENT: the job has none; -ENODEV: there is no directory for jobs either; another -errno: not
 * known. After a failure, buf is undefined. */
int job_cgroup_find(const char *controller, const struct job_cgroup_job *job, char *buf,
		    size_t size);

/* Parses "0-3,8" into a set of `size` bytes. Returns 0, or -EINVAL, also for an empty list. */
int job_cgroup_parse_cpus(const char *text, cpu_set_t *set, size_t size);
/* Reads the CPUs of a directory that job_cgroup_find("cpuset") found. Returns -ENOENT if it has
 * none, or -EINVAL if Slurm has not set them yet. */
int job_cgroup_read_cpus(const char *dir, cpu_set_t *set, size_t size);
/* Returns whether memory nodes are set, too. Without them, the group accepts no process. */
bool job_cgroup_has_mems(const char *dir);

/* Reads the first existing file of names, a list that ends with NULL. Returns 0 or -ENOENT. */
int job_cgroup_read(const char *dir, const char *const *names, char *buf, size_t size);

/*
 * Returns 1 if a process of the job runs in a group that Slurm made for one of its steps. The job's
 * own directory and our groups in it (JOB_CGROUP_OURS and names that begin so) do not count,
 * because workers and image servers may outlive the job. Returns 0 if no process is found, which
 * proves nothing if Slurm makes no groups; -errno if a group cannot be read.
 */
int job_cgroup_is_populated(const struct job_cgroup_job *job);
