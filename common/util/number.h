/*
 * number: numbers from text, alone.
 */
#pragma once

#include <stdint.h>

/* Decimal digits only, no sign, no rest. 0, -EINVAL or -ERANGE. */
int parse_uint64(const char *s, uint64_t *valuep);
int parse_uint32(const char *s, uint32_t *valuep);
