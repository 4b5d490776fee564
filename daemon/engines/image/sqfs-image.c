/*
 * Two caches, so that reading through a large file does not push out the inodes: a quarter for
 * metadata, the rest for data and fragments. Both identify a block by its offset in the file. In a
 * damaged image, two inodes may have the same offset with different sizes. Then the content that
 * was read first is kept, and sqfs-file.c refuses it if it is too short.
 */
#include "daemon/engines/image/sqfs-image.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/le.h"
#include "daemon/engines/image/sqfs-codec.h"
#include "daemon/engines/image/sqfs-copy.h"
#include "daemon/engines/image/sqfs-index.h"

enum {
	IMAGE_META_PART = 4, /* this part of the cache is for metadata */
	IMAGE_META_HEADER = 2,
	IMAGE_META_STORED = 0x8000,
	IMAGE_FRAGMENT_ENTRY = 16,
	IMAGE_FRAGMENTS_PER_BLOCK = SQFS_META_SIZE / IMAGE_FRAGMENT_ENTRY,
};

struct sqfs_image {
	int fd;
	const struct sqfs_copy *copy; /* a copy of parts of the image, or NULL */
	struct sqfs_super super;
	struct sqfs_codec *codec;
	struct sqfs_cache *meta, *data;
	size_t cache_size;
	struct sqfs_index *index;
	uint64_t *fragment_blocks; /* offsets of the fragment table's metadata blocks */
	uint8_t *zeros;
};

/* Reads size bytes at offset, which exist according to the superblock. */
static int image_read(const struct sqfs_image *img, uint64_t offset, void *buf, size_t size)
{
	int fd = sqfs_image_get_fd(img, sqfs_image_is_copied(img, offset, size));
	ssize_t n = fd_pread_all(fd, buf, size, offset);

	if (n < 0)
		return (int)n;
	return (size_t)n < size ? -EIO : 0;
}

static int image_load_fragment_index(struct sqfs_image *img, struct error *err)
{
	const struct sqfs_super *s = &img->super;
	uint64_t n, size;
	int r;

	if (s->n_fragments == 0)
		return 0;
	n = ((uint64_t)s->n_fragments + IMAGE_FRAGMENTS_PER_BLOCK - 1) / IMAGE_FRAGMENTS_PER_BLOCK;
	size = n * sizeof(uint64_t);
	if (size > s->bytes_used - s->fragment_table)
		return error_set(err, EIO,
				 "image is damaged: its fragment table lies "
				 "outside of it");
	img->fragment_blocks = malloc(size);
	if (!img->fragment_blocks)
		return error_set(err, ENOMEM, "no memory for the fragment table");
	r = image_read(img, s->fragment_table, img->fragment_blocks, size);
	if (r < 0)
		return error_errno(err, -r, "read the fragment table");
	for (uint64_t i = 0; i < n; i++)
		img->fragment_blocks[i] = le64toh(img->fragment_blocks[i]);
	return 0;
}

static int image_init_caches(struct sqfs_image *img, size_t cache_size, struct error *err)
{
	size_t meta_size = cache_size / IMAGE_META_PART;
	size_t max_input = img->super.block_size;
	int r;

	if (max_input < SQFS_META_SIZE + IMAGE_META_HEADER)
		max_input = SQFS_META_SIZE + IMAGE_META_HEADER;
	r = sqfs_codec_new(&img->codec, img->super.compressor, max_input);
	if (r == -EOPNOTSUPP)
		return error_set(err, EOPNOTSUPP,
				 "image is compressed by %s, which this build "
				 "can't read",
				 sqfs_compressor_to_string(img->super.compressor));
	if (r == 0)
		r = sqfs_cache_new(&img->meta, meta_size, SQFS_META_SIZE);
	if (r == 0)
		r = sqfs_cache_new(&img->data, cache_size - meta_size, img->super.block_size);
	if (r == 0)
		r = sqfs_index_new(&img->index);
	if (r < 0)
		return error_errno(err, -r, "prepare to read the image");
	img->zeros = calloc(1, img->super.block_size);
	if (!img->zeros)
		return error_set(err, ENOMEM, "no memory to read the image");
	return 0;
}

int sqfs_image_open(struct sqfs_image **imgp, int fd, size_t cache_size, struct error *err)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = calloc(1, sizeof(*img));
	uint8_t data[SQFS_SUPER_SIZE];
	struct stat st;
	ssize_t n;
	int r;

	if (!img)
		return error_set(err, ENOMEM, "no memory to open the image");
	img->fd = fd;
	img->cache_size = cache_size;
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "stat the image");
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "not a regular file");
	n = pread(fd, data, sizeof(data), 0);
	if (n < 0)
		return error_errno(err, errno, "read the image");
	r = sqfs_super_from_data(&img->super, data, (size_t)n, (uint64_t)st.st_size, err);
	if (r < 0)
		return r;
	r = image_load_fragment_index(img, err);
	if (r < 0)
		return r;
	r = image_init_caches(img, cache_size, err);
	if (r < 0)
		return r;
	*imgp = steal_ptr(img);
	return 0;
}

void sqfs_image_close(struct sqfs_image *img)
{
	if (!img)
		return;
	sqfs_cache_free(img->meta);
	sqfs_cache_free(img->data);
	sqfs_codec_free(img->codec);
	sqfs_index_free(img->index);
	free(img->fragment_blocks);
	free(img->zeros);
	free(img);
}

const struct sqfs_super *sqfs_image_get_super(const struct sqfs_image *img)
{
	return &img->super;
}

void sqfs_image_set_cache_size(struct sqfs_image *img, size_t cache_size)
{
	sqfs_cache_set_limit(img->meta, cache_size / IMAGE_META_PART);
	sqfs_cache_set_limit(img->data, cache_size - cache_size / IMAGE_META_PART);
}

size_t sqfs_image_get_cache_size(const struct sqfs_image *img)
{
	return img->cache_size;
}

void sqfs_image_set_copy(struct sqfs_image *img, const struct sqfs_copy *copy)
{
	img->copy = copy;
}

bool sqfs_image_is_copied(const struct sqfs_image *img, uint64_t offset, size_t size)
{
	return img->copy && sqfs_copy_has(img->copy, offset, size);
}

int sqfs_image_get_fd(const struct sqfs_image *img, bool copied)
{
	return copied ? sqfs_copy_get_fd(img->copy) : img->fd;
}

int sqfs_image_read(const struct sqfs_image *img, uint64_t offset, void *buf, size_t size)
{
	if (offset > img->super.bytes_used || size > img->super.bytes_used - offset)
		return -EIO;
	return image_read(img, offset, buf, size);
}

const uint8_t *sqfs_image_get_zeros(const struct sqfs_image *img)
{
	return img->zeros;
}

struct sqfs_index *sqfs_image_get_index(struct sqfs_image *img)
{
	return img->index;
}

/* Reads n compressed bytes and decompresses them to block. */
static int image_fill_compressed(struct sqfs_image *img, uint64_t offset, size_t n, size_t max,
				 struct sqfs_block *block)
{
	struct sqfs_codec_ctx *ctx = sqfs_codec_borrow(img->codec);
	size_t size = 0;
	int r;

	if (!ctx)
		return -ENOMEM;
	r = image_read(img, offset, sqfs_codec_get_buffer(ctx), n);
	if (r == 0)
		r = sqfs_codec_decompress(img->codec, ctx, n, block->data, max, &size);
	sqfs_codec_return(img->codec, ctx);
	block->size = (uint32_t)size;
	return r;
}

static int image_fill_meta(void *arg, uint64_t offset, struct sqfs_block *block)
{
	struct sqfs_image *img = arg;
	uint64_t left = img->super.bytes_used - offset - IMAGE_META_HEADER;
	uint8_t header[IMAGE_META_HEADER];
	uint32_t size;
	int r;

	r = image_read(img, offset, header, sizeof(header));
	if (r < 0)
		return r;
	size = le_u16(header) & ~(uint32_t)IMAGE_META_STORED;
	if (size == 0 || size > SQFS_META_SIZE || size > left)
		return -EIO;
	offset += IMAGE_META_HEADER;
	block->next = offset + size;
	if (le_u16(header) & IMAGE_META_STORED) {
		block->size = size;
		return image_read(img, offset, block->data, size);
	}
	r = image_fill_compressed(img, offset, size, SQFS_META_SIZE, block);
	if (r < 0)
		return r;
	return block->size == 0 ? -EIO : 0;
}

int sqfs_image_get_meta(struct sqfs_image *img, uint64_t offset, const struct sqfs_block **blockp)
{
	if (offset < SQFS_SUPER_SIZE || offset >= img->super.bytes_used - IMAGE_META_HEADER)
		return -EIO;
	return sqfs_cache_acquire(img->meta, offset, image_fill_meta, img, blockp);
}

void sqfs_image_put_meta(struct sqfs_image *img, const struct sqfs_block *block)
{
	sqfs_cache_release(img->meta, block);
}

struct image_data_arg {
	struct sqfs_image *img;
	uint32_t word;
};

static int image_fill_data(void *arg, uint64_t offset, struct sqfs_block *block)
{
	struct image_data_arg *a = arg;
	uint32_t size = SQFS_BLOCK_SIZE(a->word);

	if (!(a->word & SQFS_BLOCK_STORED))
		return image_fill_compressed(a->img, offset, size, a->img->super.block_size, block);
	block->size = size;
	return image_read(a->img, offset, block->data, size);
}

int sqfs_image_check_block(const struct sqfs_image *img, uint64_t offset, uint32_t word)
{
	uint32_t size = SQFS_BLOCK_SIZE(word);

	if ((word & ~(SQFS_BLOCK_STORED | (SQFS_BLOCK_STORED - 1))) != 0)
		return -EIO;
	if (size == 0 || size > img->super.block_size)
		return -EIO;
	if (offset < SQFS_SUPER_SIZE || offset >= img->super.bytes_used ||
	    size > img->super.bytes_used - offset)
		return -EIO;
	return 0;
}

int sqfs_image_get_data(struct sqfs_image *img, uint64_t offset, uint32_t word,
			const struct sqfs_block **blockp)
{
	struct image_data_arg a = { img, word };
	int r;

	r = sqfs_image_check_block(img, offset, word);
	if (r < 0)
		return r;
	return sqfs_cache_acquire(img->data, offset, image_fill_data, &a, blockp);
}

void sqfs_image_put_data(struct sqfs_image *img, const struct sqfs_block *block)
{
	sqfs_cache_release(img->data, block);
}

int sqfs_image_get_fragment(struct sqfs_image *img, uint32_t index, uint64_t *offsetp,
			    uint32_t *wordp)
{
	const struct sqfs_block *block;
	size_t pos = (size_t)(index % IMAGE_FRAGMENTS_PER_BLOCK) * IMAGE_FRAGMENT_ENTRY;
	uint64_t offset;
	uint32_t word;
	int r;

	if (index >= img->super.n_fragments)
		return -EIO;
	r = sqfs_image_get_meta(img, img->fragment_blocks[index / IMAGE_FRAGMENTS_PER_BLOCK],
				&block);
	if (r < 0)
		return r;
	if (pos + IMAGE_FRAGMENT_ENTRY > block->size) {
		sqfs_image_put_meta(img, block);
		return -EIO;
	}
	offset = le_u64(block->data + pos);
	word = le_u32(block->data + pos + 8);
	sqfs_image_put_meta(img, block);

	r = sqfs_image_check_block(img, offset, word);
	if (r < 0)
		return r;
	*offsetp = offset;
	*wordp = word;
	return 0;
}

void sqfs_image_get_stats(struct sqfs_image *img, struct sqfs_cache_stats *meta,
			  struct sqfs_cache_stats *data)
{
	sqfs_cache_get_stats(img->meta, meta);
	sqfs_cache_get_stats(img->data, data);
}
