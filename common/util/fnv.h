/*
 * fnv: the hash FNV-1a with 64 bits, for short keys. It is the same on all machines. A user who
 * chooses the keys can make them collide (see siphash.h). The functions are inline, because trees
 * are hashed file by file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FNV_INIT UINT64_C(0xcbf29ce484222325) /* the hash of no bytes */

/* Adds bytes to a hash. hash: FNV_INIT, or the hash of the bytes before. */
static inline uint64_t fnv_add(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Adds text without its NUL. */
static inline uint64_t fnv_add_text(uint64_t hash, const char *text)
{
	return fnv_add(hash, text, strlen(text));
}
