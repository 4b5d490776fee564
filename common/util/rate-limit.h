/*
 * rate-limit: how fast a source may be read. A reader learns how long to wait before he goes
 * on.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#define RATE_LIMIT_BURST_US 100000 /* what was not read in so long a time may be caught up */

struct rate_limit {
	uint64_t per_s; /* bytes; 0: no limit */
	pthread_mutex_t lock;
	uint64_t free_us; /* when all that was read would be through */
};

void rate_limit_init(struct rate_limit *r, uint64_t per_s);
void rate_limit_deinit(struct rate_limit *r);

/* Any thread, at now_us of any clock that does not go back. How long to wait, in us. */
uint64_t rate_limit_take(struct rate_limit *r, uint64_t bytes, uint64_t now_us);
/* As usleep(), which takes no time above 71 minutes. A signal may end it. */
void rate_limit_sleep(uint64_t us);
