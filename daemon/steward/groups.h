/*
 * groups: the cgroups of the job, where those processes go that use memory and CPUs for it: workers
 * and image servers. Slurm makes them when the first step begins, which is after the prolog started
 * staging; what was started before is moved then.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/keeper-acts.h"

struct serve;

/* "memory", "cpuset", "devices" */
const char *groups_to_string(enum act_group which);
/* The job's directory of one kind: see jobgroup_find(). */
int groups_find(enum act_group which, uid_t uid, uint32_t job_id, char *dir, size_t size);

/* Looks for those that are not held yet, has the keeper hold them, and moves what is there already. dir: of the
 * job's memory, and the result of looking for it as jobgroup_find() has it. */
int groups_look(struct serve *s, char *dir, size_t size);

/* Is one of them to be looked for? */
bool groups_are_missing(const struct serve *s);
/* And may it come any moment, because others have come? */
bool groups_are_coming(const struct serve *s);

/* Binds the keeper, and with that all that it starts, and us to the job's CPUs. */
void groups_follow_cpus(struct serve *s);
