/*
 * sqfs-cache: a bounded cache of decompressed blocks that many threads share.
 *
 * A block is identified by a 64-bit key (its position in the image). The first thread that asks for
 * a block fills it. Threads that ask in the meantime wait for this decompression and do not start
 * another one. A block that no thread holds stays until its memory is needed; the least recently
 * used block is removed first.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct sqfs_cache;

struct sqfs_block {
	uint8_t *data;
	uint32_t size; /* bytes in data */
	uint64_t next; /* set by fill; in an image: offset of the next block */
};

/* Fills block->data, which has room for unit bytes, and sets size and next. Called without a lock.
 * Returns 0 or -errno. */
typedef int (*sqfs_fill_fn)(void *arg, uint64_t key, struct sqfs_block *block);

struct sqfs_cache_stats {
	uint64_t n_hits;
	uint64_t n_fills;
	uint64_t n_waits;   /* requests for a block that another thread was filling */
	uint64_t n_buffers; /* allocated buffers of unit bytes */
};

/* limit: bytes that are kept; a few units are kept in any case. Blocks that callers hold are never
 * removed, so the cache may exceed its limit by these. */
int sqfs_cache_new(struct sqfs_cache **cp, size_t limit, uint32_t unit);
/* All blocks must have been released. */
void sqfs_cache_free(struct sqfs_cache *c);
DEFINE_FREEP(struct sqfs_cache, sqfs_cache_free)

/* Lends the block of key until sqfs_cache_release(). If fill fails, all threads that wait for this
 * block get its error, and a later call fills it again. Returns 0, -ENOMEM, or the error of
 * fill. */
int sqfs_cache_acquire(struct sqfs_cache *c, uint64_t key, sqfs_fill_fn fill, void *arg,
		       const struct sqfs_block **blockp);
/* Lends the block of key if it is in the cache and filled. Otherwise returns NULL. */
const struct sqfs_block *sqfs_cache_find(struct sqfs_cache *c, uint64_t key);
void sqfs_cache_release(struct sqfs_cache *c, const struct sqfs_block *block);

/* Changes the limit. May be called by any thread. Surplus blocks are removed now, or when they are
 * released; one block of each shard stays. */
void sqfs_cache_set_limit(struct sqfs_cache *c, size_t limit);

void sqfs_cache_get_stats(struct sqfs_cache *c, struct sqfs_cache_stats *stats);
