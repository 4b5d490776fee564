/*
 * read-timer: recognises a source whose reads take long.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum {
	READ_TIMER_SLOW_NS = 50000, /* a read from memory takes about 2000 ns */
	READ_TIMER_SAMPLE = 4,	    /* one of so many reads is measured */
	READ_TIMER_MIN_SLOW = 8,    /* slow reads in a row; a single one may be due to a busy CPU */
};

struct read_timer {
	uint64_t n_reads;
	unsigned n_slow; /* measured slow reads in a row */
};

static inline uint64_t read_timer_get_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* Call this before each read, and pass its result to read_timer_end() after it. 0: the read is not
 * measured. */
static inline uint64_t read_timer_begin(struct read_timer *t)
{
	return t->n_reads++ % READ_TIMER_SAMPLE == 0 ? read_timer_get_ns() : 0;
}

static inline void read_timer_end(struct read_timer *t, uint64_t begin)
{
	if (begin > 0)
		t->n_slow = read_timer_get_ns() - begin >= READ_TIMER_SLOW_NS ? t->n_slow + 1 : 0;
}

static inline bool read_timer_is_slow(const struct read_timer *t)
{
	return t->n_slow >= READ_TIMER_MIN_SLOW;
}
