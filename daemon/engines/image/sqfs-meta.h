/*
 * sqfs-meta: reads through a chain of metadata blocks as if it were one stream.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct sqfs_block;
struct sqfs_image;

/* A place in a table: a block's offset in the file, and a byte in its decompressed content. */
struct sqfs_place {
	uint64_t block;
	uint32_t pos;
};

struct sqfs_meta {
	struct sqfs_image *img;
	struct sqfs_place place;
	const struct sqfs_block *held;
};

/* Prepares reading at a place. Reads nothing. */
void sqfs_meta_init(struct sqfs_meta *m, struct sqfs_image *img, struct sqfs_place place);
/* Returns the block that is held. It may be called twice. */
void sqfs_meta_deinit(struct sqfs_meta *m);

/* Reads the next size bytes to buf (NULL: skips them). -EIO: the image is damaged or ends. */
int sqfs_meta_read(struct sqfs_meta *m, void *buf, size_t size);
