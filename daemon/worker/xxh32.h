/*
 * xxh32: the checksum of lz4 frames (xxHash, 32 bits, seed 0), for data that comes in pieces.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct xxh32 {
	uint32_t lanes[4];
	uint64_t size;
	unsigned char rest[16]; /* size % 16 bytes that wait for more */
};

void xxh32_init(struct xxh32 *x);
void xxh32_add(struct xxh32 *x, const void *data, size_t size);
uint32_t xxh32_get(const struct xxh32 *x);

uint32_t xxh32_of(const void *data, size_t size);
