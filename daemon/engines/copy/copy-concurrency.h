/*
 * copy-concurrency: the number of operations on a source at the same time. It is small while the
 * source answers at once. If operations take long, it grows step by step, as long as this does not
 * make each of them slower. Any thread may call.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_CONCURRENCY_MAX 64 /* more gained nothing */

struct copy_concurrency {
	uint64_t slow_us; /* what takes longer is waited for and not computed */
	size_t max;

	pthread_mutex_t lock;
	size_t n;		      /* at once, now */
	uint64_t n_slow, slow_sum_us; /* the last ones that took longer, with none between */
	uint64_t n_samples, sum_us;
	uint64_t last_us;   /* the mean with the n before this one; 0: there was none */
	uint64_t window_us; /* the mean of the window before, with the first n */
};

/* Begins with n_start, ends with max at most (0: COPY_CONCURRENCY_MAX). */
void copy_concurrency_init(struct copy_concurrency *p, size_t n_start, size_t max,
			   uint64_t slow_us);
void copy_concurrency_deinit(struct copy_concurrency *p);

size_t copy_concurrency_get(struct copy_concurrency *p);

/* One operation took us, and counts as so many: what copy_concurrency_get() says from now on if
 * that is more than before, else 0. */
size_t copy_concurrency_note(struct copy_concurrency *p, uint64_t us, unsigned n_units);
