/*
 * sqfs-file: the content of regular files, lent in pieces from the cache without a copy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engines/image/sqfs-inode.h"
#include "daemon/engines/image/sqfs-meta.h"
#include "daemon/engines/image/volume.h"

struct sqfs_image;

/* Walks the block list of a file. */
struct sqfs_blocks {
	struct sqfs_meta meta;
	const struct sqfs_inode *inode;
	uint64_t block;	 /* number of the next block */
	uint64_t offset; /* its offset in the image */
};

int sqfs_blocks_begin(struct sqfs_blocks *b, struct sqfs_image *img, const struct sqfs_inode *inode,
		      uint64_t block);
/* Gets the offset and the size word of the next block; *wordp 0: a hole. Must not be called more
 * often than there are blocks. */
int sqfs_blocks_next(struct sqfs_blocks *b, uint64_t *offsetp, uint32_t *wordp);
void sqfs_blocks_end(struct sqfs_blocks *b);

/* Returns the maximum number of extents of a read of size bytes. */
size_t sqfs_file_max_extents(const struct sqfs_image *img, size_t size);

/*
 * Lends size bytes from pos on, or fewer at the end of the file. extents must have room for
 * sqfs_file_max_extents(size). They must be returned by sqfs_file_release(). -EIO: damaged.
 *
 * Bytes that the image contains uncompressed are not read; only their place is returned. Neighbours
 * in the image become one extent.
 */
int sqfs_file_read(struct sqfs_image *img, const struct sqfs_inode *inode, uint64_t pos,
		   size_t size, struct volume_extent *extents, size_t *n_extentsp);
/* Reads the extents without data to buf, which has room for all of them. Returns 0 or -errno. */
int sqfs_file_load(struct sqfs_image *img, struct volume_extent *extents, size_t n_extents,
		   void *buf);
void sqfs_file_release(struct sqfs_image *img, struct volume_extent *extents, size_t n_extents);
