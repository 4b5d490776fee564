/*
 * timed-cond: conditions of threads that are waited for with a limit, by CLOCK_MONOTONIC.
 */
#pragma once

#include <pthread.h>
#include <time.h>

static inline void timed_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* Returns the time in ms milliseconds, for pthread_cond_timedwait(). */
static inline struct timespec timed_cond_get_end(unsigned ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ms % 1000 * 1000000L;
	t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000L;
	t.tv_nsec %= 1000000000L;
	return t;
}
