/*
 * siphash: a hash with a secret key, for tables whose keys a user chooses. Without the secret key
 * he cannot find keys that collide. Do not store or send the hashes, because each key gives other
 * hashes (those of fnv.h are the same everywhere).
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
/* Returns the hash of the data. */
uint64_t siphash(const struct siphash_key *key, const void *data, size_t size);
