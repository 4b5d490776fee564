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

/* Whose groups are looked for. */
/* Our group of a job's memory, in the job's directory beside the steps. The other hierarchies have
 * none: a set of CPUs that is below the job's would keep Slurm from changing that. */
#define JOB_CGROUP_OURS "stage-data"

struct job_cgroup_job {
	uid_t uid;
	uint32_t job_id;
	const char *sluid; /* NULL or "": not known */
};

/* Where the hierarchies are mounted, by one look at the table of mounts. */
struct job_cgroup_mounts {
	int r; /* 0, or why the table can't be read */
	struct mountinfo_query v1[JOB_CGROUP_MAX_CONTROLLERS + 1]; /* and that of v2 last */
	size_t n;
};

/* n: JOB_CGROUP_MAX_CONTROLLERS at most. */
void job_cgroup_read_mounts(struct job_cgroup_mounts *m, const char *const *controllers, size_t n);

/* The same as job_cgroup_find() of one of these controllers. */
int job_cgroup_find_in(const struct job_cgroup_mounts *m, size_t controller,
		       const struct job_cgroup_job *job, char *buf, size_t size);

/* Directory of the job in the hierarchy of a v1 controller, else in v2; buf is lost. 0; -ENOENT;
 * -ENODEV: not even one for jobs; or why nobody knows. */
int job_cgroup_find(const char *controller, const struct job_cgroup_job *job, char *buf,
		    size_t size);

/* "0-3,8" into a set of size bytes: 0 or -EINVAL, also of a list without any. */
int job_cgroup_parse_cpus(const char *text, cpu_set_t *set, size_t size);
/* The CPUs of a directory of job_cgroup_find("cpuset"). -ENOENT; -EINVAL: Slurm has not filled it
 * yet. */
int job_cgroup_read_cpus(const char *dir, cpu_set_t *set, size_t size);
/* Has it nodes of memory as well? Without these it takes no process. */
bool job_cgroup_has_mems(const char *dir);

/* Reads the first of the files (a list that ends with NULL) that is there. 0 or -ENOENT. */
int job_cgroup_read(const char *dir, const char *const *names, char *buf, size_t size);

/*
 * Does a process of the job's run, in a group that Slurm made for a step of it? The job's own
 * directory, and groups of our own in there (JOB_CGROUP_OURS and what begins so), don't count:
 * writers and image servers may outlive the job. 1: yes; 0: none is found, which is no proof where
 * Slurm makes no groups; -errno: a group can't be looked at.
 */
int job_cgroup_is_populated(const struct job_cgroup_job *job);
