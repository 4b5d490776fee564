/*
 * fnv: FNV-1a of 64 bits: a hash of short keys that is the same on all machines. It is no
 * protection against who chooses the keys. Here and not in a .c, because trees are hashed file by
 * file.
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
