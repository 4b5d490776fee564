/*
 * zip-blocks: the content of a zip's deflated members in blocks, for many threads, in bounded
 * memory.
 *
 * A block is inflated when somebody asks for it, from the nearest place before it whose state is
 * kept, and stays in a cache. If the deflate stream is damaged, or its size or checksum differs
 * from that of the central directory, the result is an error, and no block.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-cache.h"

struct zip_blocks;

#define ZIP_BLOCK_SIZE (128u << 10)

struct zip_member {
	uint32_t id; /* unique for each member */
	uint32_t crc;
	uint64_t start, packed; /* offset and size in the file */
	uint64_t size;		/* not 0, and below 2^48 */
};

/* fd still belongs to the caller. check: called after each read, checks that the file has not
 * changed; returns 0 or -errno. memory: bytes for blocks and states. Returns 0 or -ENOMEM. */
int zip_blocks_new(struct zip_blocks **bp, int fd, int (*check)(void *arg), void *arg,
		   size_t memory);
/* All blocks must have been released. */
void zip_blocks_free(struct zip_blocks *b);
DEFINE_FREEP(struct zip_blocks, zip_blocks_free)

/* Changes the memory limit, also while blocks are used. */
void zip_blocks_set_memory(struct zip_blocks *b, size_t memory);

/* Lends block i of a member: ZIP_BLOCK_SIZE bytes; the last block has fewer. -EBADMSG: the member
 * is damaged; -ENOMEM; or the error of pread() or check. */
int zip_blocks_acquire(struct zip_blocks *b, const struct zip_member *m, uint64_t i,
		       const struct sqfs_block **blockp);
void zip_blocks_release(struct zip_blocks *b, const struct sqfs_block *block);
