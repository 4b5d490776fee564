/*
 * slow-queue: requests that wait until their time, in the order of their times. It is used by one
 * thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SLOW_QUEUE_MAX = 1024 };

struct slow_request {
	int64_t due;  /* ns of CLOCK_MONOTONIC */
	uint64_t seq; /* of those that are due together the older one is first */
	size_t size;
	_Alignas(8) char data[];
};

struct slow_queue {
	size_t n, max_n; /* now, and at most */
	uint64_t seq;
	struct slow_request *heap[SLOW_QUEUE_MAX];
};

void slow_queue_deinit(struct slow_queue *q);

/* A copy of data. -ENOMEM, also when SLOW_QUEUE_MAX wait already. */
int slow_queue_push(struct slow_queue *q, int64_t due, const void *data, size_t size);
/* The first, if it is due; to be freed. NULL: none. */
struct slow_request *slow_queue_pop(struct slow_queue *q, int64_t now);
/* ns until the first is due, 0 if it is; -1: there is none. */
int64_t slow_queue_get_wait(const struct slow_queue *q, int64_t now);
