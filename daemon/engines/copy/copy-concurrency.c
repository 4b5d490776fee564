/*
 * One measurement is a window of two samples for each concurrent operation, at least 32. If the
 * mean time is more than 1.5 times that of the previous number of operations, the server is at its
 * limit, and the number stays: more operations would only make the server's queue longer, also for
 * other jobs. The first step needs two similar windows, so that a window which began with cached
 * data does not count, or PACE_FIRST_SLOW consecutive operations that were all slow, which a busy
 * CPU does not cause.
 */
#include "daemon/engines/copy/copy-concurrency.h"

#include <stdbool.h>

#include "daemon/engines/copy/stage-io.h"

#define PACE_MIN_SAMPLES 32
#define PACE_FIRST_STEP 8
#define PACE_FIRST_SLOW 8

void copy_concurrency_init(struct copy_concurrency *p, size_t n_start, size_t max, uint64_t slow_us)
{
	max = stage_io_get_most(max, COPY_CONCURRENCY_MAX, COPY_CONCURRENCY_MAX);
	*p = (struct copy_concurrency){ .n = n_start < max ? n_start : max,
					.max = max,
					.slow_us = slow_us };
	pthread_mutex_init(&p->lock, NULL);
}

void copy_concurrency_deinit(struct copy_concurrency *p)
{
	pthread_mutex_destroy(&p->lock);
}

size_t copy_concurrency_get(struct copy_concurrency *p)
{
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->n;
	pthread_mutex_unlock(&p->lock);
	return n;
}

static bool is_slow_from_the_start(const struct copy_concurrency *p)
{
	return p->last_us == 0 && p->n_slow >= PACE_FIRST_SLOW && p->n < p->max;
}

static bool is_window_full(const struct copy_concurrency *p)
{
	if (is_slow_from_the_start(p))
		return true;
	return p->n_samples >= PACE_MIN_SAMPLES && p->n_samples >= 2 * p->n;
}

static bool is_alike(uint64_t mean_us, uint64_t before_us)
{
	return mean_us < before_us + before_us / 2;
}

static bool should_grow(const struct copy_concurrency *p, uint64_t mean_us)
{
	if (mean_us <= p->slow_us || p->n >= p->max)
		return false;
	if (is_slow_from_the_start(p))
		return true;
	return is_alike(mean_us, p->last_us ? p->last_us : p->window_us);
}

static size_t end_window(struct copy_concurrency *p)
{
	uint64_t mean_us = is_slow_from_the_start(p) ? p->slow_sum_us / p->n_slow
						     : p->sum_us / p->n_samples;
	bool grow = should_grow(p, mean_us);

	p->n_samples = p->sum_us = 0;
	p->window_us = mean_us;
	if (!grow)
		return 0;
	p->last_us = mean_us;
	p->n = p->n < PACE_FIRST_STEP ? PACE_FIRST_STEP : 2 * p->n;
	if (p->n > p->max)
		p->n = p->max;
	return p->n;
}

size_t copy_concurrency_note(struct copy_concurrency *p, uint64_t us, unsigned n_units)
{
	size_t n = 0;

	pthread_mutex_lock(&p->lock);
	p->n_samples += n_units;
	p->sum_us += us * n_units;
	p->n_slow = us > p->slow_us ? p->n_slow + 1 : 0;
	p->slow_sum_us = us > p->slow_us ? p->slow_sum_us + us : 0;
	if (is_window_full(p))
		n = end_window(p);
	pthread_mutex_unlock(&p->lock);
	return n;
}
