/*
 * groups: the cgroups of the job. Workers and image servers, which use memory and CPUs for the job,
 * are moved to them. Slurm makes the cgroups when the first step begins, after the prolog has
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

/* One of the job's directories. */
struct groups_one {
	bool is_held;
	bool has_failed; /* to be held, and that is in the log */
	ino_t ino;
	char dir[PATH_MAX]; /* empty: not found */
};

/* "memory", "cpuset", "devices" */
const char *groups_to_string(enum privop_group which);
/* The job's directory of one kind: see job_cgroup_find(). */
int groups_find(enum privop_group which, const struct job_cgroup_job *job, char *dir, size_t size);

/* Looks for the cgroups that are not open yet, or that Slurm has removed since. Asks the keeper to
 * open them, and moves the processes that run already. 0: the memory cgroup is open, in
 * s->groups[PRIVOP_GROUP_MEMORY].dir. Otherwise the result of job_cgroup_find(), or the reason why
 * it cannot be opened; then nothing is charged. */
int groups_look(struct serve *s);

/* Is one of them to be looked for? */
bool groups_are_missing(const struct serve *s);
/* And may it come any moment, because others have come? */
bool groups_are_coming(const struct serve *s);
