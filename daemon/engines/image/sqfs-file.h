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
	uint64_t block;	 /* number of the next */
	uint64_t offset; /* in the image: where it begins */
};

int sqfs_blocks_begin(struct sqfs_blocks *b, struct sqfs_image *img, const struct sqfs_inode *inode,
		      uint64_t block);
/* Place and size word of the next block; *wordp 0: a hole. Only as often as there are blocks. */
int sqfs_blocks_next(struct sqfs_blocks *b, uint64_t *offsetp, uint32_t *wordp);
void sqfs_blocks_end(struct sqfs_blocks *b);

/* Most extents that a read of size bytes can have. */
size_t sqfs_file_max_extents(const struct sqfs_image *img, size_t size);

/*
 * Lends the bytes from pos on, size of them or up to the end of the file. extents has room for
 * sqfs_file_max_extents(size). To be given back by sqfs_file_release(). -EIO: damaged.
 *
 * What the image holds uncompressed is not read, only found: neighbours there are one extent.
 */
int sqfs_file_read(struct sqfs_image *img, const struct sqfs_inode *inode, uint64_t pos,
		   size_t size, struct volume_extent *extents, size_t *n_extentsp);
/* Reads what is not in memory to buf, which has room for all of it; 0 or -errno. */
int sqfs_file_load(struct sqfs_image *img, struct volume_extent *extents, size_t n_extents,
		   void *buf);
void sqfs_file_release(struct sqfs_image *img, struct volume_extent *extents, size_t n_extents);
