/*
 * sqfs-codec: the decompressors of squashfs images, by the number in the superblock.
 *
 * Safe to use from many threads at once: each call borrows a context (decoder state and a buffer
 * for compressed bytes) from the codec's pool.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct sqfs_codec;

enum sqfs_compressor { /* the numbers are the format's */
		       SQFS_COMPRESSOR_GZIP = 1,
		       SQFS_COMPRESSOR_LZMA = 2,
		       SQFS_COMPRESSOR_LZO = 3,
		       SQFS_COMPRESSOR_XZ = 4,
		       SQFS_COMPRESSOR_LZ4 = 5,
		       SQFS_COMPRESSOR_ZSTD = 6,
};

/* Returns "gzip", …; NULL for an unknown number. */
const char *sqfs_compressor_to_string(unsigned compressor);

/* max_input: maximum number of compressed bytes in one call. -EOPNOTSUPP if this build does not
 * have the compressor. */
int sqfs_codec_new(struct sqfs_codec **cp, unsigned compressor, size_t max_input);
/* All contexts must have been returned. */
void sqfs_codec_free(struct sqfs_codec *c);
DEFINE_FREEP(struct sqfs_codec, sqfs_codec_free)

/* Borrow a context, return it, and get its buffer of max_input bytes. sqfs_codec_borrow() returns
 * NULL if there is no memory. */
struct sqfs_codec_ctx *sqfs_codec_borrow(struct sqfs_codec *c);
void sqfs_codec_return(struct sqfs_codec *c, struct sqfs_codec_ctx *ctx);
uint8_t *sqfs_codec_get_buffer(struct sqfs_codec_ctx *ctx);

/* Decompresses the first in_size bytes of the context's buffer to out. -EIO: the data is damaged,
 * or decompresses to more than out_max bytes. */
int sqfs_codec_decompress(struct sqfs_codec *c, struct sqfs_codec_ctx *ctx, size_t in_size,
			  void *out, size_t out_max, size_t *out_sizep);
