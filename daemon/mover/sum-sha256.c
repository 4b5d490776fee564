/* Where there is no libxxhash. */
#include "daemon/mover/sum.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/engines/copy/hash.h"

const char sum_name[] = "sha256";

struct sum {
	struct hash *hash;
};

int sum_new(struct sum **sp)
{
	_cleanup_(sum_freep) struct sum *s = calloc(1, sizeof(*s));
	int r = s ? hash_new(&s->hash) : -ENOMEM;

	if (r < 0)
		return r;
	*sp = steal_ptr(s);
	return 0;
}

void sum_free(struct sum *s)
{
	if (s)
		hash_free(s->hash);
	free(s);
}

void sum_begin(struct sum *s)
{
	char text[HASH_TEXT_SIZE];

	hash_get(s->hash, text);
}

void sum_add(struct sum *s, const void *data, size_t size)
{
	hash_add(s->hash, data, size);
}

void sum_get(struct sum *s, char text[static SUM_TEXT_SIZE])
{
	hash_get(s->hash, text);
}
