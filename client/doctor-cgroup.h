/*
 * doctor-cgroup: whether staged data can be charged to the jobs of this node, and if not, why.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum doctor_cgroup_kind {
	DOCTOR_CGROUP_NONE,	     /* no cgroups are mounted */
	DOCTOR_CGROUP_V1,	     /* v1 with the memory controller */
	DOCTOR_CGROUP_V1_NO_MEMORY,  /* v1 without it */
	DOCTOR_CGROUP_V2,	     /* v2 with the memory controller, as far as it can be seen */
	DOCTOR_CGROUP_DISABLED,	     /* v2; the kernel has the controller disabled */
	DOCTOR_CGROUP_USED_BY_V1,    /* v2; a hierarchy of v1 has the controller */
	DOCTOR_CGROUP_NOT_PASSED_ON, /* v2; a cgroup above those of jobs does not enable it */
	DOCTOR_CGROUP_OUTSIDE,	     /* v2; so does one that is not visible here */
};

struct doctor_cgroup {
	enum doctor_cgroup_kind kind;
	char path[512]; /* NOT_PASSED_ON: the cgroup */
};

/* Looks at the cgroups that are mounted at top. proc: where /proc is. */
void doctor_cgroup_look(struct doctor_cgroup *c, const char *top, const char *proc);

/* Returns what becomes of data in memory if Slurm does not limit the memory of jobs: "charged to
 * the job, without a limit" or "not charged to the job". config: output of `scontrol show
 * config`. */
const char *doctor_cgroup_get_effect(const struct doctor_cgroup *c, const char *config);
