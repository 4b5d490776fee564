/*
 * A file consists of full blocks, and of a last piece that is a shorter block or a part of a
 * fragment, which several files share. The size of a cached block is compared with the inode each
 * time, so a damaged image causes an error, and bytes after a block's content are never returned.
 */
#include "daemon/engines/image/sqfs-file.h"

#include <errno.h>

#include "common/util/le.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-index.h"

int sqfs_blocks_begin(struct sqfs_blocks *b, struct sqfs_image *img, const struct sqfs_inode *inode,
		      uint64_t block)
{
	struct sqfs_mark mark;
	uint64_t at = block, offset;
	uint32_t word;
	int r;

	r = sqfs_index_find(sqfs_image_get_index(img), img, inode, &at, &mark);
	if (r < 0)
		return r;
	*b = (struct sqfs_blocks){ .inode = inode, .block = at, .offset = mark.offset };
	sqfs_meta_init(&b->meta, img, mark.place);
	while (b->block < block) {
		r = sqfs_blocks_next(b, &offset, &word);
		if (r < 0) {
			sqfs_blocks_end(b);
			return r;
		}
	}
	return 0;
}

int sqfs_blocks_next(struct sqfs_blocks *b, uint64_t *offsetp, uint32_t *wordp)
{
	uint8_t p[4];
	int r;

	r = sqfs_meta_read(&b->meta, p, sizeof(p));
	if (r < 0)
		return r;
	*wordp = le_u32(p);
	*offsetp = b->offset;
	b->offset += SQFS_BLOCK_SIZE(*wordp);
	b->block++;
	return 0;
}

void sqfs_blocks_end(struct sqfs_blocks *b)
{
	sqfs_meta_deinit(&b->meta);
}

size_t sqfs_file_max_extents(const struct sqfs_image *img, size_t size)
{
	return size / sqfs_image_get_super(img)->block_size + 2;
}

void sqfs_file_release(struct sqfs_image *img, struct volume_extent *extents, size_t n_extents)
{
	for (size_t i = 0; i < n_extents; i++)
		if (extents[i].block)
			sqfs_image_put_data(img, extents[i].block);
}

int sqfs_file_load(struct sqfs_image *img, struct volume_extent *extents, size_t n_extents,
		   void *buf)
{
	uint8_t *p = buf;
	int r = 0;

	for (size_t i = 0; i < n_extents && r == 0; i++) {
		if (extents[i].data)
			continue;
		r = sqfs_image_read(img, extents[i].offset, p, extents[i].size);
		extents[i].data = p;
		p += extents[i].size;
	}
	return r;
}

/* Returns the place of an uncompressed block. It is not cached: the page cache has it already, and
 * for a fragment, its neighbours would be read, too. */
static int extent_find_stored(const struct sqfs_image *img, uint64_t offset, uint32_t word,
			      size_t pos, size_t need, struct volume_extent *x)
{
	uint32_t size = SQFS_BLOCK_SIZE(word);
	int r = sqfs_image_check_block(img, offset, word);

	if (r < 0)
		return r;
	if (size < pos || size - pos < need)
		return -EIO;
	*x = (struct volume_extent){ .offset = offset + pos, .size = need };
	return 0;
}

/* Lends need bytes of a block or fragment, from pos on. The block must contain all of them. */
static int extent_get(struct sqfs_image *img, uint64_t offset, uint32_t word, size_t pos,
		      size_t need, struct volume_extent *x)
{
	int r;

	*x = (struct volume_extent){ .size = need };
	if (SQFS_BLOCK_SIZE(word) == 0) {
		x->data = sqfs_image_get_zeros(img);
		x->hole = true;
		return 0;
	}
	if (word & SQFS_BLOCK_STORED)
		return extent_find_stored(img, offset, word, pos, need, x);
	r = sqfs_image_get_data(img, offset, word, &x->block);
	if (r < 0)
		return r;
	if (x->block->size < pos || x->block->size - pos < need) {
		sqfs_image_put_data(img, x->block);
		return -EIO;
	}
	x->data = x->block->data + pos;
	return 0;
}

/* Adds an extent to the last one if they are neighbours in the image. */
static bool extent_join(struct volume_extent *last, const struct volume_extent *x)
{
	if (last->data || x->data || last->offset + last->size != x->offset)
		return false;
	last->size += x->size;
	return true;
}

static int extent_get_tail(struct sqfs_image *img, const struct sqfs_inode *inode, size_t pos,
			   size_t need, struct volume_extent *x)
{
	uint64_t offset;
	uint32_t word;
	int r;

	r = sqfs_image_get_fragment(img, inode->file.fragment, &offset, &word);
	if (r < 0)
		return r;
	return extent_get(img, offset, word, inode->file.fragment_pos + pos, need, x);
}

int sqfs_file_read(struct sqfs_image *img, const struct sqfs_inode *inode, uint64_t pos,
		   size_t size, struct volume_extent *extents, size_t *n_extentsp)
{
	const struct sqfs_super *s = sqfs_image_get_super(img);
	struct sqfs_blocks b = { 0 };
	size_t n = 0;
	int r = 0;

	if (inode->type != SQFS_TYPE_FILE)
		return -EINVAL;
	*n_extentsp = 0;
	if (pos >= inode->size)
		return 0;
	if (size > inode->size - pos)
		size = (size_t)(inode->size - pos);
	if (pos >> s->block_log < inode->file.n_blocks)
		r = sqfs_blocks_begin(&b, img, inode, pos >> s->block_log);
	while (r == 0 && size > 0) {
		size_t in = pos & (s->block_size - 1);
		size_t need = s->block_size - in < size ? s->block_size - in : size;

		if (pos >> s->block_log < inode->file.n_blocks) {
			uint64_t offset;
			uint32_t word;

			r = sqfs_blocks_next(&b, &offset, &word);
			if (r == 0)
				r = extent_get(img, offset, word, in, need, &extents[n]);
		} else {
			r = extent_get_tail(img, inode, in, need, &extents[n]);
		}
		if (r < 0)
			break;
		if (n == 0 || !extent_join(&extents[n - 1], &extents[n]))
			n++;
		pos += need;
		size -= need;
	}
	sqfs_blocks_end(&b);
	if (r < 0) {
		sqfs_file_release(img, extents, n);
		return r;
	}
	*n_extentsp = n;
	return 0;
}
