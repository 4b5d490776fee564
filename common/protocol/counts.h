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
	/* The keeper counts these itself: */
	COUNT_JOBS,
	COUNT_JOBS_NOT_SET_UP,

	/* Datasets by result: */
	COUNT_READY,
	COUNT_FAILED,
	COUNT_CANCELLED,

	/* Datasets by method, in the order of enum dataset_method, from copy on: */
	COUNT_BY_COPY,
	COUNT_BY_EXTRACT,
	COUNT_BY_MOUNT,
	COUNT_BY_LINK,

	/* Failures by cause, in the order of enum stage_cause, from STAGE_CAUSE_RULES on: */
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
	COUNT_KEEPER_DEATHS, /* counted by the process that cleans up after the keeper */

	/* The state of the node at the last clean-up, instead of a sum: */
	COUNT_BREAKER_OPEN, /* 0 or 1 */
	COUNT_LEFTOVERS,    /* leftovers that could not be removed */

	COUNT_N_THINGS = 48,

	/* Sums by method, in the same order: */
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

/* Upper limits for one job's figures. They prevent an overflow of the sums even if a thousand jobs
 * send wrong figures. */
#define COUNT_MAX_THINGS 4096
#define COUNT_MAX_AMOUNT (1LL << 50)
