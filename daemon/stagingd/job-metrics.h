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
	struct launcher *launcher; /* NULL: not started yet */
	uint64_t counts[COUNT_N];  /* sums for the job so far */
	uint64_t told[COUNT_N];	   /* the values that the keeper was sent last */
};

/* Looks at all datasets. Counts and logs each result that is new or has changed. Sends the figures
 * to the keeper at once, except during the job's end, because more changes follow then. */
void job_metrics_look(struct job_metrics *t);

/* Sends changed figures to the keeper, if there is one. */
void job_metrics_tell(struct job_metrics *t);

/* Sets what the dataset adds to the figures. It must be ready or ended. */
void job_metrics_count(const struct stage *s, uint64_t *counts);
