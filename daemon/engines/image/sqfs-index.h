/*
 * sqfs-index: remembers places in the block lists of large files.
 *
 * A block's offset is the sum of the sizes of all before it. With a mark at every 2048th block a
 * read near the end of a terabyte adds up 2048 numbers at most instead of eight million.
 */
#pragma once

#include <stdint.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-meta.h"

struct sqfs_image;
struct sqfs_index;
struct sqfs_inode;

#define SQFS_INDEX_STEP 2048 /* blocks between two marks: one metadata block of numbers */

struct sqfs_mark {
	struct sqfs_place place; /* place in the block list */
	uint64_t offset;	 /* offset of that block in the image */
};

int sqfs_index_new(struct sqfs_index **xp);
void sqfs_index_free(struct sqfs_index *x);
DEFINE_FREEP(struct sqfs_index, sqfs_index_free)

/* Finds the mark at or before block *blockp of the file, and sets *blockp to the mark's block. */
int sqfs_index_find(struct sqfs_index *x, struct sqfs_image *img, const struct sqfs_inode *inode,
		    uint64_t *blockp, struct sqfs_mark *mark);
