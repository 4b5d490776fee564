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
	bool with_keeper; /* it is to end with us */
	bool keeper_gone;
	struct loop_timer timer;
	void (*on_end)(void *arg); /* everything that had to be done is */
	void *arg;
};

void job_end_init(struct job *job);

/* The end of the job; on_end() follows. With a keeper what is ready stays. */
void job_end(struct job *job);

/* The same where nobody tells the keeper that the job is over: we do, and all is taken away. */
void job_end_with_keeper(struct job *job);

/* Something has ended: is that all? */
void job_end_check(struct job *job);

/* The exit status and the sentence for who waits for a dataset that is not ready, or asks for one
 * more. */
int job_end_get_reason(const struct job *job, const char **textp);
