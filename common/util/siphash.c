/*
 * As the paper has it: a state of four words, two rounds for each eight bytes, and four rounds at
 * the end. The last word has the bytes that are left over, and the size in its highest byte.
 */
#include "common/util/siphash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum {
	SIP_C_ROUNDS = 2, /* for each word */
	SIP_D_ROUNDS = 4, /* at the end */
	SIP_WORD = 8,
};

int siphash_key_init(struct siphash_key *key)
{
	struct siphash_key k;
	ssize_t n;

	do
		n = getrandom(&k, sizeof(k), 0); /* getrandom() returns so few bytes completely or
						  * not at all */
	while (n < 0 && errno == EINTR);
	if (n != sizeof(k))
		return n < 0 ? -errno : -EIO;
	*key = k;
	return 0;
}

static uint64_t rotate(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

static void add_rounds(uint64_t v[static 4], unsigned n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

static void add_word(uint64_t v[static 4], uint64_t word)
{
	v[3] ^= word;
	add_rounds(v, SIP_C_ROUNDS);
	v[0] ^= word;
}

uint64_t siphash(const struct siphash_key *key, const void *data, size_t size)
{
	/* "somepseudorandomlygeneratedbytes" */
	uint64_t v[] = {
		key->k[0] ^ UINT64_C(0x736f6d6570736575),
		key->k[1] ^ UINT64_C(0x646f72616e646f6d),
		key->k[0] ^ UINT64_C(0x6c7967656e657261),
		key->k[1] ^ UINT64_C(0x7465646279746573),
	};
	const unsigned char *p = data;
	uint64_t word, last = 0;
	size_t n = size;

	for (; n >= SIP_WORD; p += SIP_WORD, n -= SIP_WORD) {
		memcpy(&word, p, SIP_WORD);
		add_word(v, le64toh(word));
	}
	for (size_t i = 0; i < n; i++)
		last |= (uint64_t)p[i] << (8 * i);
	add_word(v, last | (uint64_t)size << 56);
	v[2] ^= 0xff;
	add_rounds(v, SIP_D_ROUNDS);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
