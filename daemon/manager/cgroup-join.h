/*
 * cgroup-join: the cgroups of the job. Workers and image servers, which use memory and CPUs for the
 * job, are moved to them. Slurm makes the cgroups when the first step begins, after the prolog has
 * started the staging. Processes that were started before are moved then.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/protocol/keeper-privops.h"

struct job_cgroup_job;
struct serve;

/* One of the job's cgroup directories. */
struct cgroup_joined {
	bool is_held;
	bool has_failed; /* the keeper could not open it, and this was logged */
	ino_t ino;
	char dir[PATH_MAX]; /* empty: not found */
};

/* Returns "memory", "cpuset" or "devices". */
const char *cgroup_join_to_string(enum privop_group which);
/* Finds the job's directory of one kind. Returns as job_cgroup_find() does. */
int cgroup_join_find(enum privop_group which, const struct job_cgroup_job *job, char *dir,
		     size_t size);

/* Looks for the cgroups that are not open yet, or that Slurm has removed since. Asks the keeper to
 * open them, and moves the running processes to them. Returns 0 if the memory cgroup is open, and
 * its path in s->cgroups[PRIVOP_GROUP_MEMORY].dir. Otherwise returns the result of
 * job_cgroup_find(), or why the keeper cannot open it; then no memory is charged to the job. */
int cgroup_join_look(struct serve *s);

/* Returns true if cgroup_join_look() should be called again, because cgroups may still appear. */
bool cgroup_join_is_incomplete(const struct serve *s);
/* Returns true if more cgroups are expected within a second, because the first one was found. */
bool cgroup_join_expects_more(const struct serve *s);
