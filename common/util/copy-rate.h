/*
 * copy-rate: how fast a source may be read. Who has read is told how long to wait before he goes on.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#define COPY_RATE_BURST_US 100000 /* what was not read in so long a time may be caught up */

struct copy_rate {
	uint64_t per_s; /* bytes; 0: no limit */
	pthread_mutex_t lock;
	uint64_t free_us; /* when all that was read would be through */
};

void copy_rate_init(struct copy_rate *r, uint64_t per_s);
void copy_rate_deinit(struct copy_rate *r);

/* Any thread, at now_us of any clock that does not go back. How long to wait, in us. */
uint64_t copy_rate_take(struct copy_rate *r, uint64_t bytes, uint64_t now_us);
