#include "daemon/engines/image/sqfs-copy.h"

#include <stdatomic.h>
#include <stdlib.h>

struct sqfs_copy {
	int fd;
	uint64_t n_pieces;
	_Atomic uint64_t n_missing;
	atomic_bool have[];
};

struct sqfs_copy *sqfs_copy_new(int fd, uint64_t size)
{
	uint64_t n = size / SQFS_COPY_PIECE + (size % SQFS_COPY_PIECE != 0);
	struct sqfs_copy *c = calloc(1, sizeof(*c) + n * sizeof(c->have[0]));

	if (c) {
		c->fd = fd;
		c->n_pieces = n;
		c->n_missing = n;
	}
	return c;
}

void sqfs_copy_free(struct sqfs_copy *c)
{
	free(c);
}

int sqfs_copy_get_fd(const struct sqfs_copy *c)
{
	return c->fd;
}

void sqfs_copy_add(struct sqfs_copy *c, uint64_t offset)
{
	uint64_t i = offset / SQFS_COPY_PIECE;

	if (i < c->n_pieces && !atomic_exchange_explicit(&c->have[i], true, memory_order_release))
		atomic_fetch_sub_explicit(&c->n_missing, 1, memory_order_release);
}

bool sqfs_copy_has(const struct sqfs_copy *c, uint64_t offset, size_t size)
{
	uint64_t end = offset + size, i = offset / SQFS_COPY_PIECE;

	if (end < offset || end > c->n_pieces * SQFS_COPY_PIECE)
		return false;
	if (atomic_load_explicit(&c->n_missing, memory_order_acquire) == 0)
		return true;
	for (; i * SQFS_COPY_PIECE < end; i++) {
		if (!atomic_load_explicit(&c->have[i], memory_order_acquire))
			return false;
	}
	return true;
}
