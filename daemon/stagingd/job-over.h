/*
 * job-over: detects the end of the job if slurmd is gone and cannot report it. Then the keeper is
 * asked to remove everything; without a keeper, this module is not used. While slurmd runs, nothing
 * is done: the end of slurmd wakes us (if the kernel has pidfds). If the processes of other users
 * are not visible, or no slurmd was ever seen, nothing is done either.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/stagingd/loop.h"

struct async;
struct job_info;

struct job_over {
	struct loop *loop;
	const struct job_info *info;
	void (*on_over)(void *arg); /* the job has ended */
	void *arg;

	struct loop_source source; /* of pidfd */
	struct loop_timer timer;
	int pidfd;	     /* of slurmd, or -1 */
	pid_t slurmd;	     /* 0: there is none */
	uint64_t give_up_ms; /* 0: one has been seen */
	unsigned n_over;     /* how often in a row the job was over */
	bool told;	     /* that it is not known, since slurmd is gone */
	struct async *async; /* squeue is being asked */
};

/* The caller has filled in the first four fields. */
void job_over_init(struct job_over *o);
/* Once the job is served: the first look goes through all processes, and comes a second later. */
void job_over_start(struct job_over *o);
/* The job ends, or is freed: twice is fine. */
void job_over_stop(struct job_over *o);
