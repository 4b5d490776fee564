/*
 * clock: the clocks for waits, ages and measurements.
 */
#pragma once

#include <stdint.h>

/* Returns the milliseconds of CLOCK_BOOTTIME, the only clock for waits and ages. */
uint64_t clock_ms(void);

/* Returns the microseconds of CLOCK_MONOTONIC, to measure how long an operation takes. */
uint64_t clock_us(void);
