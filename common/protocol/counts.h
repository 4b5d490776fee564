/*
 * counts: the figures of a job's datasets for the site's metrics. stagingd sends them to the keeper
 * (KEEPER_COUNT), the keeper adds them to those of the node, and stage-helper writes these as text.
 *
 * The node's are kept as an array by these numbers: a new figure takes the next free number of its
 * half, and none gets another. In common/ because three programs need them.
 */
#pragma once

#include <stdint.h>

enum count {
	/* The keeper's own: */
	COUNT_JOBS,
	COUNT_JOBS_NOT_SET_UP,

	/* What became of datasets: */
	COUNT_READY,
	COUNT_FAILED,
	COUNT_CANCELLED,

	/* How they were made visible, in the order of enum dataset_method from copy on: */
	COUNT_BY_COPY,
	COUNT_BY_EXTRACT,
	COUNT_BY_MOUNT,
	COUNT_BY_LINK,

	/* Why they failed, in the order of enum stage_cause from STAGE_CAUSE_RULES on: */
	COUNT_CAUSE_RULES,
	COUNT_CAUSE_SPACE,
	COUNT_CAUSE_TIME,
	COUNT_CAUSE_MISSING,
	COUNT_CAUSE_DENIED,
	COUNT_CAUSE_IO,
	COUNT_CAUSE_CONTENT,
	COUNT_CAUSE_DIED,
	COUNT_CAUSE_OTHER,

	COUNT_MOUNTS,
	COUNT_KEEPER_DEATHS, /* who cleans up after it counts it */

	/* Not sums but the state of the node, as who cleans up found it last: */
	COUNT_BREAKER_OPEN, /* 0 or 1 */
	COUNT_LEFTOVERS,    /* what it could not clean up */

	COUNT_N_THINGS = 48,

	/* By method, as above. */
	COUNT_BYTES_COPY = COUNT_N_THINGS,
	COUNT_BYTES_EXTRACT,
	COUNT_BYTES_MOUNT,
	COUNT_BYTES_LINK,
	COUNT_MS_COPY,
	COUNT_MS_EXTRACT,
	COUNT_MS_MOUNT,
	COUNT_MS_LINK,
	COUNT_FILES,

	COUNT_N = 64,
};

/* What a job may say at most: who lies for a thousand jobs breaks nobody's arithmetic. */
#define COUNT_MAX_THINGS 4096
#define COUNT_MAX_AMOUNT (1LL << 50)
