/*
 * copy-concurrency: the number of operations on a source at the same time. It is small while the
 * source answers at once. If operations take long, it grows step by step, as long as this does not
 * make each of them slower. Any thread may call.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_CONCURRENCY_MAX 64 /* more did not make measured copies faster */

struct copy_concurrency {
	uint64_t slow_us; /* an operation that takes longer waits for a server and does not
			   * compute */
	size_t max;

	pthread_mutex_t lock;
	size_t n;		      /* present number of operations at the same time */
	uint64_t n_slow, slow_sum_us; /* the last consecutive slow operations */
	uint64_t n_samples, sum_us;
	uint64_t last_us;   /* mean time with the previous n; 0: there was none */
	uint64_t window_us; /* mean time of the previous window, with the first n */
};

/* Starts with n_start operations and allows up to max (0: COPY_CONCURRENCY_MAX). */
void copy_concurrency_init(struct copy_concurrency *p, size_t n_start, size_t max,
			   uint64_t slow_us);
void copy_concurrency_deinit(struct copy_concurrency *p);

size_t copy_concurrency_get(struct copy_concurrency *p);

/* Records an operation, which took us microseconds and counts as n_units operations. Returns the
 * new value of copy_concurrency_get() if it has grown, else 0. */
size_t copy_concurrency_note(struct copy_concurrency *p, uint64_t us, unsigned n_units);
