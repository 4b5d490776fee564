/*
 * clock: the one that waits and ages are measured by.
 */
#pragma once

#include <stdint.h>

/* Milliseconds of CLOCK_BOOTTIME, the only clock used for waiting and ages. */
uint64_t clock_ms(void);
