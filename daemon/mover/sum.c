/*
 * The checksum is XXH3 with 128 bits. It is many times faster than a file system, while SHA-256
 * would take half of the time of a copy. It need not resist attacks, because only the user can
 * write to the copy.
 */
#include "daemon/mover/sum.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ZEROS 65536

const char sum_name[] = "xxh128";

struct sum {
	XXH3_state_t *state;
};

int sum_new(struct sum **sp)
{
	struct sum *s = calloc(1, sizeof(*s));

	if (!s || !(s->state = XXH3_createState())) {
		free(s);
		return -ENOMEM;
	}
	sum_begin(s);
	*sp = s;
	return 0;
}

void sum_free(struct sum *s)
{
	if (s)
		XXH3_freeState(s->state);
	free(s);
}

void sum_begin(struct sum *s)
{
	XXH3_128bits_reset(s->state);
}

void sum_add(struct sum *s, const void *data, size_t size)
{
	XXH3_128bits_update(s->state, data, size);
}

void sum_add_zeros(struct sum *s, uint64_t n)
{
	static const char zeros[ZEROS];

	for (; n > sizeof(zeros); n -= sizeof(zeros))
		sum_add(s, zeros, sizeof(zeros));
	sum_add(s, zeros, (size_t)n);
}

void sum_get(struct sum *s, char text[static SUM_TEXT_SIZE])
{
	XXH128_hash_t h = XXH3_128bits_digest(s->state);

	snprintf(text, SUM_TEXT_SIZE, "%016llx%016llx", (unsigned long long)h.high64,
		 (unsigned long long)h.low64);
}
