/*
 * rate-limit: limits how fast a source is read. A reader gets the time to wait before its next
 * read.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#define RATE_LIMIT_BURST_US 100000 /* a reader may make up for this much time without reads */

struct rate_limit {
	uint64_t per_s; /* bytes; 0: no limit */
	pthread_mutex_t lock;
	uint64_t free_us; /* when the bytes read so far would have arrived at the limited rate */
};

void rate_limit_init(struct rate_limit *r, uint64_t per_s);
void rate_limit_deinit(struct rate_limit *r);

/* Records that bytes are read. now_us: time of any monotonic clock. May be called by any thread.
 * Returns how long to wait, in microseconds. */
uint64_t rate_limit_take(struct rate_limit *r, uint64_t bytes, uint64_t now_us);
/* Sleeps as usleep() does, but without its limit of 71 minutes. A signal may end it. */
void rate_limit_sleep(uint64_t us);
