/*
 * cpus: binds stagingd and its workers to the job's CPUs, so that staging takes no CPU time from
 * other jobs. Slurm makes the job's cpuset after stagingd has started, so stagingd looks for it
 * until it exists: often at first, then once a second while there are workers. The keeper also
 * looks for it, and binds the processes that it starts.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/slurm/job-cgroup.h"
#include "daemon/stagingd/loop.h"

struct job_runs;

struct cpus {
	struct loop *loop;
	uint32_t job_id;
	const struct job_runs *runs;
	struct loop_timer timer;
	uint64_t slow_ms; /* time from which the timer runs less often */
	struct job_cgroup_mounts mounts;
	bool known;
	cpu_set_t set[8]; /* space for 8192 CPUs */
};

/* The caller sets the first three fields before. */
void cpus_init(struct cpus *c);
void cpus_start(struct cpus *c);
void cpus_deinit(struct cpus *c);

/* Looks for the job's CPUs now, if they are not known. Called before something is started that
 * depends on their number. */
void cpus_look(struct cpus *c);

/* Binds a worker that has just been started. */
void cpus_add(struct cpus *c, pid_t pid);
