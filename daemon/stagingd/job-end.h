/*
 * job-end: the end of a job. Datasets that are not ready are cancelled. After a deadline, the log
 * names those that could not be undone, and the keeper or main() gets a message.
 */
#pragma once

#include <stdbool.h>

#include "daemon/stagingd/loop.h"

struct job;

struct job_end {
	bool begun, removing, done;
	bool cancelling;  /* datasets are being cancelled, and not all of them were yet */
	bool with_keeper; /* the keeper does not know that the job is over; it is asked to end
			   * together with stagingd */
	bool keeper_gone;
	struct loop_timer timer;
	void (*on_end)(void *arg); /* called when the end is complete */
	void *arg;
};

void job_end_init(struct job *job);

/* Begins the end of the job; on_end() is called later. With a keeper, ready datasets stay. */
void job_end(struct job *job);

/* Begins the end of a job of which the keeper has not heard that it is over. Informs the keeper,
 * which removes everything. */
void job_end_with_keeper(struct job *job);

/* Called when something has ended; finishes the end of the job if nothing else is left. */
void job_end_check(struct job *job);

/* Returns the exit status, and in *textp the reason, for a client that waits for a dataset or wants
 * to add one while the job ends. */
int job_end_get_reason(const struct job *job, const char **textp);
