/*
 * jobgroup: where Slurm's cgroups of a job are.
 *
 * v1: <controller>/slurm*\/uid_U/job_N; v2: <cgroup2>/system.slice/…slurmstepd.scope/job_N. Neither
 * exists when the prolog starts staging: to be asked again until it does. What is above the jobs is
 * there since slurmd was started (seen on 22.05); where nothing of Slurm's makes groups it never is.
 */
#pragma once

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Directory of the job in the hierarchy of a v1 controller, else in v2; buf is lost. 0; -ENOENT; -ENODEV: not
 * even one for jobs; or why nobody knows. */
int jobgroup_find(const char *controller, uid_t uid, uint32_t job_id, char *buf, size_t size);

/* "0-3,8" into a set of size bytes: 0 or -EINVAL, also of a list without any. */
int jobgroup_parse_cpus(const char *text, cpu_set_t *set, size_t size);
/* The CPUs of a directory of jobgroup_find("cpuset"). -ENOENT; -EINVAL: Slurm has not filled it yet. */
int jobgroup_read_cpus(const char *dir, cpu_set_t *set, size_t size);

/* Reads the first of the files (a list that ends with NULL) that is there. 0 or -ENOENT. */
int jobgroup_read(const char *dir, const char *const *names, char *buf, size_t size);

/*
 * Does a process of the job's run, in a group that Slurm made for a step of it? The job's own directory, and
 * groups of our own in there (ACT_GROUP and what begins so), don't count: writers and image servers may
 * outlive the job. 1: yes; 0: none is found, which is no proof where Slurm makes no groups; -errno: a group
 * can't be looked at.
 */
int jobgroup_is_populated(uid_t uid, uint32_t job_id);
