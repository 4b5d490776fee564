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

/* Reads the superblock and the fragment index of a regular file. fd still belongs to the caller and
 * must stay open as long as the image. cache_size: bytes of decompressed blocks to keep. */
int sqfs_image_open(struct sqfs_image **imgp, int fd, size_t cache_size, struct error *err);
/* All blocks must have been returned. */
void sqfs_image_close(struct sqfs_image *img);
DEFINE_FREEP(struct sqfs_image, sqfs_image_close)

const struct sqfs_super *sqfs_image_get_super(const struct sqfs_image *img);
size_t sqfs_image_get_cache_size(const struct sqfs_image *img);
/* Changes the size of the cache, also while the image is read. */
void sqfs_image_set_cache_size(struct sqfs_image *img, size_t cache_size);

/* Gets the metadata block at an offset in the file; block->next is the offset of the next one. The
 * block is never empty. -EIO: damaged or outside the image; -ENOMEM; or the error of pread(). */
int sqfs_image_get_meta(struct sqfs_image *img, uint64_t offset, const struct sqfs_block **blockp);
void sqfs_image_put_meta(struct sqfs_image *img, const struct sqfs_block *block);

/* Gets the data or fragment block at an offset. word: its size word from the inode or the fragment
 * table. */
int sqfs_image_get_data(struct sqfs_image *img, uint64_t offset, uint32_t word,
			const struct sqfs_block **blockp);
void sqfs_image_put_data(struct sqfs_image *img, const struct sqfs_block *block);

/* Reads size bytes at an offset of the file, without decompression. -EIO: beyond the image's
 * end. */
int sqfs_image_read(const struct sqfs_image *img, uint64_t offset, void *buf, size_t size);

/* From now on, bytes that exist in copy are read there. Must be called before other threads read.
 * copy still belongs to the caller, and must live as long as the image is read. */
void sqfs_image_set_copy(struct sqfs_image *img, const struct sqfs_copy *copy);
/* sqfs_image_is_copied() returns true if these bytes exist in a copy. sqfs_image_get_fd() lends the
 * descriptor of the copy or the image. */
bool sqfs_image_is_copied(const struct sqfs_image *img, uint64_t offset, size_t size);
int sqfs_image_get_fd(const struct sqfs_image *img, bool copied);

/* Checks that a block with this offset and size word can exist in the image. Returns 0 or
 * -errno. */
int sqfs_image_check_block(const struct sqfs_image *img, uint64_t offset, uint32_t word);

/* Gets the offset and size word of a fragment block. -EIO: the index or the entry is not valid. */
int sqfs_image_get_fragment(struct sqfs_image *img, uint32_t index, uint64_t *offsetp,
			    uint32_t *wordp);

/* Returns block_size zeros, for holes. */
const uint8_t *sqfs_image_get_zeros(const struct sqfs_image *img);

/* Returns the marks in long block lists (sqfs-file.c). */
struct sqfs_index;
struct sqfs_index *sqfs_image_get_index(struct sqfs_image *img);

void sqfs_image_get_stats(struct sqfs_image *img, struct sqfs_cache_stats *meta,
			  struct sqfs_cache_stats *data);
