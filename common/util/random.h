/*
 * random: random numbers that need not be secret. They spread actions of many nodes over time.
 */
#pragma once

#include <stdint.h>
#include <sys/random.h>

/* Returns 0 to n - 1; n > 0. Returns the middle if the kernel has no random bytes yet
 * (getrandom(2)). */
static inline uint64_t random_below(uint64_t n)
{
	uint64_t v = 0;

	return getrandom(&v, sizeof(v), GRND_NONBLOCK) == sizeof(v) ? v % n : n / 2;
}
