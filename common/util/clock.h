/*
 * clock: the clock for waits and ages.
 */
#pragma once

#include <stdint.h>

/* Returns the milliseconds of CLOCK_BOOTTIME, the only clock for waits and ages. */
uint64_t clock_ms(void);
