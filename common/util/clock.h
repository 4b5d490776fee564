/*
 * clock: the clock for waits and ages.
 */
#pragma once

#include <stdint.h>

/* Milliseconds of CLOCK_BOOTTIME, the only clock used for waiting and ages. */
uint64_t clock_ms(void);
