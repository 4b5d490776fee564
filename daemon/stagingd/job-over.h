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
	void (*on_over)(void *arg); /* called when the job is over */
	void *arg;

	struct loop_source source; /* for pidfd */
	struct loop_timer timer;
	int pidfd;	     /* of slurmd; -1: none */
	pid_t slurmd;	     /* 0: no slurmd is known */
	uint64_t give_up_ms; /* time after which the search for a first slurmd ends; 0: one was
			      * seen */
	unsigned n_over;     /* number of answers in a row that the job is over */
	bool told;	     /* a warning was logged, since slurmd is gone, that the job's state
			      * is not known */
	struct async *async; /* a question to squeue is running */
};

/* The caller sets the first four fields before. */
void job_over_init(struct job_over *o);
/* Called when the job is served. The first check comes a second later, because it reads all
 * processes. */
void job_over_start(struct job_over *o);
/* Stops watching when the job ends or is freed. May be called twice. */
void job_over_stop(struct job_over *o);
