/*
 * job-metrics: the results of a job's datasets. When a result is known, one line is logged, and the
 * figures (common/protocol/counts.h) are sent to the keeper.
 */
#pragma once

#include <stdint.h>

#include "common/protocol/counts.h"

struct job_end;
struct job_info;
struct job_runs;
struct launcher;
struct stage;

struct job_metrics {
	const struct job_info *info;
	const struct job_runs *runs;
	const struct job_end *end;
	struct launcher *launcher; /* NULL: not yet */
	uint64_t counts[COUNT_N];  /* of the job so far */
	uint64_t told[COUNT_N];	   /* the keeper knows these */
};

/* Looks at all datasets; what is settled and was not, or came to something else, is counted and
 * said. The keeper is told at once, except at the job's end, when more is to come. */
void job_metrics_look(struct job_metrics *t);

/* Tells the keeper what has changed, if there is one. */
void job_metrics_tell(struct job_metrics *t);

/* What the dataset, which has come to its end or is ready, counts for. */
void job_metrics_count(const struct stage *s, uint64_t *counts);
