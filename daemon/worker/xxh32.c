/*
 * Four lanes take a little-endian word each out of every 16 bytes; at the end they are mixed with
 * the length and what is left.
 */
#include "daemon/worker/xxh32.h"

#include <endian.h>
#include <string.h>

#define STRIPE 16

static const uint32_t primes[] = { 2654435761u, 2246822519u, 3266489917u, 668265263u, 374761393u };

static inline uint32_t rotate(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static inline uint32_t load(const unsigned char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static inline uint32_t mix(uint32_t lane, uint32_t word)
{
	return rotate(lane + word * primes[1], 13) * primes[0];
}

void xxh32_init(struct xxh32 *x)
{
	*x = (struct xxh32){ .lanes = { primes[0] + primes[1], primes[1], 0, 0 - primes[0] } };
}

/* Whole stripes */
static const unsigned char *add_stripes(struct xxh32 *x, const unsigned char *p, size_t n)
{
	uint32_t a = x->lanes[0], b = x->lanes[1], c = x->lanes[2], d = x->lanes[3];

	for (; n > 0; n--, p += STRIPE) {
		a = mix(a, load(p));
		b = mix(b, load(p + 4));
		c = mix(c, load(p + 8));
		d = mix(d, load(p + 12));
	}
	x->lanes[0] = a;
	x->lanes[1] = b;
	x->lanes[2] = c;
	x->lanes[3] = d;
	return p;
}

void xxh32_add(struct xxh32 *x, const void *data, size_t size)
{
	const unsigned char *p = data;
	size_t held = x->size % STRIPE, n;

	x->size += size;
	if (held > 0) {
		n = STRIPE - held < size ? STRIPE - held : size;
		memcpy(x->rest + held, p, n);
		p += n;
		size -= n;
		if (held + n < STRIPE)
			return;
		add_stripes(x, x->rest, 1);
	}
	p = add_stripes(x, p, size / STRIPE);
	memcpy(x->rest, p, size % STRIPE);
}

uint32_t xxh32_get(const struct xxh32 *x)
{
	const unsigned char *p = x->rest;
	size_t n = x->size % STRIPE;
	uint32_t h = primes[4];

	if (x->size >= STRIPE)
		h = rotate(x->lanes[0], 1) + rotate(x->lanes[1], 7) + rotate(x->lanes[2], 12) +
		    rotate(x->lanes[3], 18);
	h += (uint32_t)x->size;
	for (; n >= 4; n -= 4, p += 4)
		h = rotate(h + load(p) * primes[2], 17) * primes[3];
	for (; n > 0; n--, p++)
		h = rotate(h + *p * primes[4], 11) * primes[0];
	h = (h ^ h >> 15) * primes[1];
	h = (h ^ h >> 13) * primes[2];
	return h ^ h >> 16;
}

uint32_t xxh32_of(const void *data, size_t size)
{
	struct xxh32 x;

	xxh32_init(&x);
	xxh32_add(&x, data, size);
	return xxh32_get(&x);
}
