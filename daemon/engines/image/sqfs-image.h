/*
 * sqfs-image: an open squashfs image as a source of decompressed blocks, for many threads.
 *
 * Everything is read by pread (reading a mapped file that has shrunk causes SIGBUS) and checked
 * before it is used, each time, because the image may change while it is open.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"
#include "daemon/engines/image/sqfs-cache.h"
#include "daemon/engines/image/sqfs-super.h"

struct error;
struct sqfs_copy;
struct sqfs_image;

/* Reads superblock and fragment index of a regular file. fd is not taken over and stays open as
 * long as the image. cache_size: bytes of decompressed blocks to keep. */
int sqfs_image_open(struct sqfs_image **imgp, int fd, size_t cache_size, struct error *err);
/* Nothing is borrowed any more. */
void sqfs_image_close(struct sqfs_image *img);
DEFINE_FREEP(struct sqfs_image, sqfs_image_close)

const struct sqfs_super *sqfs_image_get_super(const struct sqfs_image *img);
size_t sqfs_image_get_cache_size(const struct sqfs_image *img);
/* Less, or as much again, while it is read. */
void sqfs_image_set_cache_size(struct sqfs_image *img, size_t cache_size);

/* The metadata block at an offset in the file; block->next is the offset of the one behind it.
 * Never empty. -EIO: damaged or outside; -ENOMEM, or what pread said. */
int sqfs_image_get_meta(struct sqfs_image *img, uint64_t offset, const struct sqfs_block **blockp);
void sqfs_image_put_meta(struct sqfs_image *img, const struct sqfs_block *block);

/* The data or fragment block at an offset, with its size word from inode or fragment table. */
int sqfs_image_get_data(struct sqfs_image *img, uint64_t offset, uint32_t word,
			const struct sqfs_block **blockp);
void sqfs_image_put_data(struct sqfs_image *img, const struct sqfs_block *block);

/* size bytes at an offset, as they lie in the file. -EIO: beyond the image's end. */
int sqfs_image_read(const struct sqfs_image *img, uint64_t offset, void *buf, size_t size);

/* Bytes that are in copy are read there from now on. Before others read; copy stays the caller's,
 * as long as the image is read from. */
void sqfs_image_set_copy(struct sqfs_image *img, const struct sqfs_copy *copy);
/* Are these bytes in a copy? Where one may read as many: the copy or the image. Lent. */
bool sqfs_image_is_copied(const struct sqfs_image *img, uint64_t offset, size_t size);
int sqfs_image_get_fd(const struct sqfs_image *img, bool copied);

/* Is that a place in the image, and a size that a block can have? */
int sqfs_image_check_block(const struct sqfs_image *img, uint64_t offset, uint32_t word);

/* Where a fragment block is. -EIO for an index or entry that can't be. */
int sqfs_image_get_fragment(struct sqfs_image *img, uint32_t index, uint64_t *offsetp,
			    uint32_t *wordp);

/* block_size zeros, for holes. */
const uint8_t *sqfs_image_get_zeros(const struct sqfs_image *img);

/* What is kept for finding places in long block lists (sqfs-file.c). */
struct sqfs_index;
struct sqfs_index *sqfs_image_get_index(struct sqfs_image *img);

void sqfs_image_get_stats(struct sqfs_image *img, struct sqfs_cache_stats *meta,
			  struct sqfs_cache_stats *data);
