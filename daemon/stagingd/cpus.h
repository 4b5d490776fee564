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

#include "daemon/stagingd/loop.h"

struct job_runs;

struct cpus {
	struct loop *loop;
	uint32_t job_id;
	const struct job_runs *runs;
	struct loop_timer timer;
	uint64_t slow_ms; /* when to look less often */
	bool known;
	cpu_set_t set[8]; /* 8192 CPUs */
};

/* The caller has filled in the first three fields. */
void cpus_init(struct cpus *c);
void cpus_start(struct cpus *c);
void cpus_deinit(struct cpus *c);

/* Now, if they are not known: before something is started that goes by their number. */
void cpus_look(struct cpus *c);

/* A worker has been started. */
void cpus_add(struct cpus *c, pid_t pid);
