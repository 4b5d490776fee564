/*
 * siphash: a hash with a secret key, for tables whose names somebody else chooses: without the key
 * nobody can find names that meet in one bucket. Not for what is kept or sent: each key gives
 * other numbers (common/util/fnv.h gives the same everywhere).
 *
 * SipHash-2-4 by Jean-Philippe Aumasson and Daniel J. Bernstein, "SipHash: a fast short-input PRF",
 * 2012.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
	uint64_t k[2];
};

/* Makes a new key from the kernel's random bytes. Returns 0 or -errno. */
int siphash_key_init(struct siphash_key *key);
uint64_t siphash(const struct siphash_key *key, const void *data, size_t size);
