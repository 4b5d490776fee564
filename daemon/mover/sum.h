/*
 * sum: the checksum of a piece of a copy, which detects damage. A record with another kind of
 * checksum is not used.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

#define SUM_TEXT_SIZE 65

struct sum;

/* Name of the checksum in records. */
extern const char sum_name[];

int sum_new(struct sum **sp);
void sum_free(struct sum *s);
DEFINE_FREEP(struct sum, sum_free)

void sum_begin(struct sum *s);
void sum_add(struct sum *s, const void *data, size_t size);
/* Adds n zero bytes, for a hole. */
void sum_add_zeros(struct sum *s, uint64_t n);
/* Writes the checksum as lower-case hex digits. */
void sum_get(struct sum *s, char text[static SUM_TEXT_SIZE]);
