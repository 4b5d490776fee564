/*
 * gzip goes through libdeflate and zstd through a kept ZSTD_DCtx, because both are clearly faster
 * than libsquashfuse, which sets up zlib or zstd again for each block. The others are
 * libsquashfuse's own decompressors: it is built with what its distribution has, lzo included.
 * They are the only part of that library in use. Its walk of inodes and directories trusts the
 * image (of images with a few bytes changed one in twelve crashes 0.1.105), while the functions
 * used here hand over to the codec libraries with both sizes.
 */
#include "daemon/engines/image/sqfs-codec.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <libdeflate.h>
#include <squashfuse/decompress.h>
#include <zstd.h>

struct sqfs_codec_ctx {
	struct sqfs_codec_ctx *next;
	struct libdeflate_decompressor *deflate;
	ZSTD_DCtx *zstd;
	uint8_t buffer[];
};

struct sqfs_codec {
	unsigned compressor;
	size_t max_input;
	sqfs_decompressor decompress; /* a function of libsquashfuse */
	pthread_mutex_t lock;
	struct sqfs_codec_ctx *idle;
};

static const char *const compressor_names[] = {
	[SQFS_COMPRESSOR_GZIP] = "gzip", [SQFS_COMPRESSOR_LZMA] = "lzma",
	[SQFS_COMPRESSOR_LZO] = "lzo",	 [SQFS_COMPRESSOR_XZ] = "xz",
	[SQFS_COMPRESSOR_LZ4] = "lz4",	 [SQFS_COMPRESSOR_ZSTD] = "zstd",
};

const char *sqfs_compressor_to_string(unsigned compressor)
{
	return compressor < ARRAY_SIZE(compressor_names) ? compressor_names[compressor] : NULL;
}

int sqfs_codec_new(struct sqfs_codec **cp, unsigned compressor, size_t max_input)
{
	_cleanup_(sqfs_codec_freep) struct sqfs_codec *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	c->compressor = compressor;
	c->max_input = max_input;
	if (compressor == SQFS_COMPRESSOR_GZIP || compressor == SQFS_COMPRESSOR_ZSTD) {
		*cp = steal_ptr(c);
		return 0;
	}
	if (!sqfs_compressor_to_string(compressor))
		return -EOPNOTSUPP;
	c->decompress = sqfs_decompressor_get((sqfs_compression_type)compressor);
	if (!c->decompress)
		return -EOPNOTSUPP;
	*cp = steal_ptr(c);
	return 0;
}

static void ctx_free(struct sqfs_codec_ctx *ctx)
{
	if (ctx->deflate)
		libdeflate_free_decompressor(ctx->deflate);
	ZSTD_freeDCtx(ctx->zstd);
	free(ctx);
}
DEFINE_FREEP(struct sqfs_codec_ctx, ctx_free)

void sqfs_codec_free(struct sqfs_codec *c)
{
	struct sqfs_codec_ctx *next;

	if (!c)
		return;
	for (struct sqfs_codec_ctx *ctx = c->idle; ctx; ctx = next) {
		next = ctx->next;
		ctx_free(ctx);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static struct sqfs_codec_ctx *ctx_new(const struct sqfs_codec *c)
{
	_cleanup_(ctx_freep) struct sqfs_codec_ctx *ctx = malloc(sizeof(*ctx) + c->max_input);

	if (!ctx)
		return NULL;
	*ctx = (struct sqfs_codec_ctx){ 0 };
	if (c->compressor == SQFS_COMPRESSOR_GZIP) {
		ctx->deflate = libdeflate_alloc_decompressor();
		if (!ctx->deflate)
			return NULL;
	} else if (c->compressor == SQFS_COMPRESSOR_ZSTD) {
		ctx->zstd = ZSTD_createDCtx();
		if (!ctx->zstd)
			return NULL;
	}
	return steal_ptr(ctx);
}

struct sqfs_codec_ctx *sqfs_codec_borrow(struct sqfs_codec *c)
{
	struct sqfs_codec_ctx *ctx;

	pthread_mutex_lock(&c->lock);
	ctx = c->idle;
	if (ctx)
		c->idle = ctx->next;
	pthread_mutex_unlock(&c->lock);
	return ctx ? ctx : ctx_new(c);
}

void sqfs_codec_return(struct sqfs_codec *c, struct sqfs_codec_ctx *ctx)
{
	if (!ctx)
		return;
	pthread_mutex_lock(&c->lock);
	ctx->next = c->idle;
	c->idle = ctx;
	pthread_mutex_unlock(&c->lock);
}

uint8_t *sqfs_codec_get_buffer(struct sqfs_codec_ctx *ctx)
{
	return ctx->buffer;
}

int sqfs_codec_decompress(struct sqfs_codec *c, struct sqfs_codec_ctx *ctx, size_t in_size,
			  void *out, size_t out_max, size_t *out_sizep)
{
	size_t n = out_max;

	if (in_size > c->max_input)
		return -EIO;
	if (ctx->deflate) {
		if (libdeflate_zlib_decompress(ctx->deflate, ctx->buffer, in_size, out, out_max,
					       &n) != LIBDEFLATE_SUCCESS)
			return -EIO;
	} else if (ctx->zstd) {
		n = ZSTD_decompressDCtx(ctx->zstd, out, out_max, ctx->buffer, in_size);
		if (ZSTD_isError(n))
			return -EIO;
	} else if (c->decompress(ctx->buffer, in_size, out, &n) != SQFS_OK || n > out_max) {
		return -EIO;
	}
	*out_sizep = n;
	return 0;
}
