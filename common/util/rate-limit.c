#include "common/util/rate-limit.h"

#include <time.h>

void rate_limit_init(struct rate_limit *r, uint64_t per_s)
{
	*r = (struct rate_limit){ .per_s = per_s };
	pthread_mutex_init(&r->lock, NULL);
}

void rate_limit_deinit(struct rate_limit *r)
{
	pthread_mutex_destroy(&r->lock);
}

static uint64_t time_for(const struct rate_limit *r, uint64_t bytes)
{
	return bytes / r->per_s * 1000000 + bytes % r->per_s * 1000000 / r->per_s;
}

uint64_t rate_limit_take(struct rate_limit *r, uint64_t bytes, uint64_t now_us)
{
	uint64_t wait;

	if (r->per_s == 0)
		return 0;
	pthread_mutex_lock(&r->lock);
	if (r->free_us + RATE_LIMIT_BURST_US < now_us)
		r->free_us = now_us - RATE_LIMIT_BURST_US;
	r->free_us += time_for(r, bytes);
	wait = r->free_us > now_us ? r->free_us - now_us : 0;
	pthread_mutex_unlock(&r->lock);
	return wait;
}

void rate_limit_sleep(uint64_t us)
{
	const struct timespec wait = { .tv_sec = (time_t)(us / 1000000),
				       .tv_nsec = (long)(us % 1000000) * 1000 };

	if (us > 0)
		nanosleep(&wait, NULL);
}
