/*
 * Each kind of inode is read completely into a small buffer, then parsed: layouts[] has its size,
 * and the functions below know the offsets. Owners are not read, because all files of the mount
 * belong to the job's user.
 */
#include "daemon/engines/image/sqfs-inode.h"

#include <errno.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "common/util/le.h"
#include "daemon/engines/image/sqfs-image.h"

enum {
	INODE_HEADER = 16,
	INODE_MAX_FIXED = 56,
	INODE_DIR_EMPTY = 3, /* a listing's size counts three bytes for "." and ".." */
};

static void inode_get_dir(const uint8_t *p, struct sqfs_inode *i)
{
	i->n_links = le_u32(p + 20);
	i->size = le_u16(p + 24);
	i->dir.listing.block = le_u32(p + 16);
	i->dir.listing.pos = le_u16(p + 26);
	i->dir.parent = le_u32(p + 28);
}

static void inode_get_long_dir(const uint8_t *p, struct sqfs_inode *i)
{
	i->n_links = le_u32(p + 16);
	i->size = le_u32(p + 20);
	i->dir.listing.block = le_u32(p + 24);
	i->dir.parent = le_u32(p + 28);
	i->dir.n_index = le_u16(p + 32);
	i->dir.listing.pos = le_u16(p + 34);
	i->xattr = le_u32(p + 36);
}

static void inode_get_file(const uint8_t *p, struct sqfs_inode *i)
{
	i->n_links = 1;
	i->file.start = le_u32(p + 16);
	i->file.fragment = le_u32(p + 20);
	i->file.fragment_pos = le_u32(p + 24);
	i->size = le_u32(p + 28);
}

static void inode_get_long_file(const uint8_t *p, struct sqfs_inode *i)
{
	i->file.start = le_u64(p + 16);
	i->size = le_u64(p + 24);
	i->file.n_sparse = le_u64(p + 32);
	i->n_links = le_u32(p + 40);
	i->file.fragment = le_u32(p + 44);
	i->file.fragment_pos = le_u32(p + 48);
	i->xattr = le_u32(p + 52);
}

static void inode_get_symlink(const uint8_t *p, struct sqfs_inode *i)
{
	i->n_links = le_u32(p + 16);
	i->size = le_u32(p + 20);
}

static void inode_get_other(const uint8_t *p, struct sqfs_inode *i)
{
	i->n_links = le_u32(p + 16);
}

/* clang-format off */
static const struct {
	uint8_t size; /* size of the fields of fixed length */
	void (*get)(const uint8_t *p, struct sqfs_inode *i);
} layouts[] = {
	[SQFS_TYPE_DIR]                                   = { 32, inode_get_dir },
	[SQFS_TYPE_FILE]                                  = { 32, inode_get_file },
	[SQFS_TYPE_SYMLINK]                               = { 24, inode_get_symlink },
	[SQFS_TYPE_BLOCK_DEVICE]                          = { 24, inode_get_other },
	[SQFS_TYPE_CHAR_DEVICE]                           = { 24, inode_get_other },
	[SQFS_TYPE_FIFO]                                  = { 20, inode_get_other },
	[SQFS_TYPE_SOCKET]                                = { 20, inode_get_other },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_DIR]              = { 40, inode_get_long_dir },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_FILE]             = { 56, inode_get_long_file },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_SYMLINK]          = { 24, inode_get_symlink },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_BLOCK_DEVICE]     = { 28, inode_get_other },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_CHAR_DEVICE]      = { 28, inode_get_other },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_FIFO]             = { 24, inode_get_other },
	[SQFS_TYPE_EXTENDED + SQFS_TYPE_SOCKET]           = { 24, inode_get_other },
};
/* clang-format on */

uint64_t sqfs_inode_get_root(const struct sqfs_image *img)
{
	return sqfs_image_get_super(img)->root_ref;
}

bool sqfs_type_is_shown(enum sqfs_type type)
{
	return type == SQFS_TYPE_DIR || type == SQFS_TYPE_FILE || type == SQFS_TYPE_SYMLINK;
}

static int inode_check_file(const struct sqfs_super *s, struct sqfs_inode *i)
{
	uint64_t rest = i->size & (s->block_size - 1);

	if (i->size > INT64_MAX)
		return -EIO;
	i->file.n_blocks = i->size >> s->block_log;
	if (i->file.fragment == SQFS_NO_FRAGMENT)
		i->file.n_blocks += rest != 0;
	else if (i->file.fragment >= s->n_fragments || i->file.fragment_pos >= s->block_size ||
		 rest > s->block_size - i->file.fragment_pos)
		return -EIO;
	/* Each block takes four bytes. If these do not fit into the inode table, the file is not
	 * valid. */
	if (i->file.n_blocks / (SQFS_META_SIZE / 4) > s->directory_table - s->inode_table)
		return -EIO;
	return 0;
}

static int inode_check_dir(const struct sqfs_super *s, struct sqfs_inode *i)
{
	/* The size in the inode is three bytes larger than the listing. The smallest value is that
	 * of an empty directory. */
	i->size = i->size <= INODE_DIR_EMPTY ? 0 : i->size - INODE_DIR_EMPTY;
	if (i->dir.listing.pos >= SQFS_META_SIZE)
		return -EIO;
	if (i->size > 0 && i->dir.listing.block >= s->bytes_used - s->directory_table)
		return -EIO;
	i->dir.listing.block += s->directory_table;
	return 0;
}

static int inode_check(const struct sqfs_super *s, struct sqfs_inode *i)
{
	if (i->number == 0 || i->number > s->n_inodes)
		return -EIO;
	if (i->n_links == 0)
		i->n_links = 1;
	switch (i->type) {
	case SQFS_TYPE_FILE:
		return inode_check_file(s, i);
	case SQFS_TYPE_DIR:
		return inode_check_dir(s, i);
	case SQFS_TYPE_SYMLINK:
		return i->size == 0 || i->size > SQFS_MAX_SYMLINK ? -EIO : 0;
	default:
		return 0;
	}
}

static int inode_read(struct sqfs_meta *m, struct sqfs_inode *i)
{
	uint8_t p[INODE_MAX_FIXED];
	unsigned type;
	int r;

	r = sqfs_meta_read(m, p, INODE_HEADER);
	if (r < 0)
		return r;
	type = le_u16(p);
	if (type == 0 || type >= ARRAY_SIZE(layouts))
		return -EIO;
	r = sqfs_meta_read(m, p + INODE_HEADER, layouts[type].size - (size_t)INODE_HEADER);
	if (r < 0)
		return r;
	i->type = type > SQFS_TYPE_EXTENDED ? type - SQFS_TYPE_EXTENDED : type;
	i->mode = le_u16(p + 2) & 07777;
	i->mtime = le_u32(p + 8);
	i->number = le_u32(p + 12);
	layouts[type].get(p, i);
	i->body = m->place;
	return 0;
}

int sqfs_inode_load(struct sqfs_image *img, uint64_t ref, struct sqfs_inode *inode)
{
	const struct sqfs_super *s = sqfs_image_get_super(img);
	struct sqfs_inode i = { .ref = ref, .xattr = SQFS_NO_XATTR };
	struct sqfs_place place = { s->inode_table + (ref >> 16), ref & 0xffff };
	struct sqfs_meta m;
	int r;

	if (ref >> 48 != 0 || place.block >= s->directory_table || place.pos >= SQFS_META_SIZE)
		return -EIO;
	sqfs_meta_init(&m, img, place);
	r = inode_read(&m, &i);
	sqfs_meta_deinit(&m);
	if (r < 0)
		return r;
	r = inode_check(s, &i);
	if (r < 0)
		return r;
	*inode = i;
	return 0;
}

int sqfs_inode_read_link(struct sqfs_image *img, const struct sqfs_inode *inode, char *buf)
{
	struct sqfs_meta m;
	int r;

	if (inode->type != SQFS_TYPE_SYMLINK)
		return -EINVAL;
	sqfs_meta_init(&m, img, inode->body);
	r = sqfs_meta_read(&m, buf, inode->size);
	sqfs_meta_deinit(&m);
	if (r < 0)
		return r;
	buf[inode->size] = '\0';
	return memchr(buf, '\0', inode->size) ? -EIO : 0;
}
