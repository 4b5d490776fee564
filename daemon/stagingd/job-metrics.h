/*
 * job-metrics: what became of a job's datasets: a line of the log for each when it is known, and
 * figures (common/protocol/counts.h) that the keeper is told.
 */
#pragma once

#include <stdint.h>

#include "common/protocol/counts.h"

struct job;
struct stage;

struct job_metrics {
	uint64_t counts[COUNT_N]; /* of the job so far */
	uint64_t told[COUNT_N];	  /* the keeper knows these */
};

/* Looks at all datasets; what is settled and was not, or came to something else, is counted and
 * said. The keeper is told at once, except at the job's end, when more is to come. */
void job_metrics_look(struct job *job);

/* Tells the keeper what has changed, if there is one. */
void job_metrics_tell(struct job *job);

/* What the dataset, which has come to its end or is ready, counts for. */
void job_metrics_count(const struct stage *s, uint64_t *counts);
