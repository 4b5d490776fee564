/*
 * A listing is a sequence of runs: a header, then up to 256 entries whose inodes lie in one block
 * of the inode table. A cookie is the position of a run and the number of entries of it that are
 * done, so that a read of a directory can be resumed at any entry without stored state.
 *
 * Entries are sorted by name, and directories longer than a metadata block have an index: the first
 * name of each block. It is used to skip blocks, both for a name and for a cookie. Without it, each
 * look-up in a directory of 10^5 entries would read all blocks before the entry.
 */
#include "daemon/engines/image/sqfs-dir.h"

#include <errno.h>
#include <string.h>

#include "common/util/le.h"
#include "daemon/engines/image/sqfs-image.h"

enum {
	DIR_RUN_HEADER = 12,
	DIR_RUN_MAX = 256,
	DIR_ENTRY = 8,
	DIR_INDEX_ENTRY = 12,
	DIR_COOKIE_BITS = 9, /* bits for the number in a run, 0 … 256 */
};

/* The last index entry before a name or a position: reading starts there. */
struct dir_skip {
	uint32_t pos;	/* position in the listing */
	uint32_t block; /* offset in the directory table */
};

/* Compares names (not terminated) as bytes, which is the order in an image. */
static int name_compare(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t n = a_size < b_size ? a_size : b_size;
	int r = memcmp(a, b, n);

	return r != 0 ? r : (a_size > b_size) - (a_size < b_size);
}

/* Reads the next entry of an index, with its first name. */
static int dir_read_index(struct sqfs_meta *m, struct dir_skip *skip,
			  char name[static SQFS_MAX_NAME], size_t *sizep)
{
	uint8_t p[DIR_INDEX_ENTRY];
	int r = sqfs_meta_read(m, p, sizeof(p));

	if (r < 0)
		return r;
	*sizep = (size_t)le_u32(p + 8) + 1;
	if (*sizep > SQFS_MAX_NAME)
		return -EIO;
	skip->pos = le_u32(p);
	skip->block = le_u32(p + 4);
	return sqfs_meta_read(m, name, *sizep);
}

/* Finds the index entry for a name, or (name NULL) for a position. */
static int dir_find_skip(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
			 uint64_t pos, struct dir_skip *skip)
{
	size_t name_size = name ? strlen(name) : 0;
	struct sqfs_meta m;
	int r = 0;

	*skip = (struct dir_skip){ 0 };
	sqfs_meta_init(&m, img, inode->body);
	for (uint32_t i = 0; i < inode->dir.n_index; i++) {
		char first[SQFS_MAX_NAME];
		struct dir_skip next;
		size_t size;

		r = dir_read_index(&m, &next, first, &size);
		if (r < 0)
			break;
		if (name ? name_compare(first, size, name, name_size) > 0 : next.pos > pos)
			break;
		*skip = next;
	}
	sqfs_meta_deinit(&m);
	return r;
}

/* Moves the cursor to the run of an index entry, whose position counts from the first byte of the
 * listing. */
static int dir_apply_skip(struct sqfs_dir *d, struct sqfs_image *img,
			  const struct sqfs_inode *inode, const struct dir_skip *skip)
{
	const struct sqfs_super *s = sqfs_image_get_super(img);
	struct sqfs_place place = inode->dir.listing;

	if (skip->pos != 0) {
		if (skip->pos > d->size || skip->block >= s->bytes_used - s->directory_table)
			return -EIO;
		place.block = s->directory_table + skip->block;
		place.pos = (place.pos + skip->pos) % SQFS_META_SIZE;
	}
	d->pos = skip->pos;
	sqfs_meta_init(&d->meta, img, place);
	return 0;
}

static int dir_skip_to(struct sqfs_dir *d, uint64_t pos)
{
	int r;

	if (pos < d->pos || pos > d->size)
		return -EINVAL;
	r = sqfs_meta_read(&d->meta, NULL, pos - d->pos);
	d->pos = pos;
	return r;
}

static int dir_begin_by(struct sqfs_dir *d, struct sqfs_image *img, const struct sqfs_inode *inode,
			const char *name, uint64_t pos)
{
	struct dir_skip skip = { 0 };
	int r = 0;

	if (inode->type != SQFS_TYPE_DIR)
		return -ENOTDIR;
	*d = (struct sqfs_dir){
		.size = inode->size,
		.n_inodes = sqfs_image_get_super(img)->n_inodes,
	};
	if (inode->dir.n_index > 0 && (name || pos > 0))
		r = dir_find_skip(img, inode, name, pos, &skip);
	return r < 0 ? r : dir_apply_skip(d, img, inode, &skip);
}

int sqfs_dir_begin(struct sqfs_dir *d, struct sqfs_image *img, const struct sqfs_inode *inode,
		   uint64_t cookie)
{
	uint64_t pos = cookie >> DIR_COOKIE_BITS;
	uint32_t n = cookie & ((1u << DIR_COOKIE_BITS) - 1);
	struct sqfs_dirent ent;
	int r;

	r = dir_begin_by(d, img, inode, NULL, pos);
	if (r < 0)
		return r;
	r = dir_skip_to(d, pos);
	while (r >= 0 && n-- > 0) {
		r = sqfs_dir_read(d, &ent);
		if (r == 0)
			r = -EINVAL;
	}
	if (r < 0)
		sqfs_dir_end(d);
	return r < 0 ? r : 0;
}

void sqfs_dir_end(struct sqfs_dir *d)
{
	sqfs_meta_deinit(&d->meta);
}

/* Reads size bytes of the listing. */
static int dir_get(struct sqfs_dir *d, void *buf, size_t size)
{
	int r;

	if (size > d->size - d->pos)
		return -EIO;
	r = sqfs_meta_read(&d->meta, buf, size);
	if (r < 0)
		return r;
	d->pos += size;
	return 0;
}

static int dir_read_run(struct sqfs_dir *d)
{
	uint8_t p[DIR_RUN_HEADER];
	uint64_t pos = d->pos;
	int r;

	r = dir_get(d, p, sizeof(p));
	if (r < 0)
		return r;
	d->run_pos = pos;
	d->n_read = 0;
	d->n_left = le_u32(p);
	d->run_block = le_u32(p + 4);
	d->run_number = le_u32(p + 8);
	if (d->n_left >= DIR_RUN_MAX)
		return -EIO;
	d->n_left++;
	return 0;
}

/* Checks that a name can be used in a path: not empty, not "." or "..", without a slash or NUL. */
static int name_check(const char *name, size_t size)
{
	if (memchr(name, '/', size) || memchr(name, '\0', size))
		return -EIO;
	if (name[0] == '.' && (size == 1 || (size == 2 && name[1] == '.')))
		return -EIO;
	return 0;
}

static int dirent_check(const struct sqfs_dir *d, const struct sqfs_dirent *ent)
{
	if (ent->type < SQFS_TYPE_DIR || ent->type > SQFS_TYPE_SOCKET)
		return -EIO;
	if (ent->number == 0 || ent->number > d->n_inodes)
		return -EIO;
	return name_check(ent->name, ent->name_size);
}

int sqfs_dir_read(struct sqfs_dir *d, struct sqfs_dirent *ent)
{
	uint8_t p[DIR_ENTRY];
	int r = 0;

	if (d->n_left == 0) {
		if (d->pos == d->size)
			return 0;
		r = dir_read_run(d);
	}
	if (r == 0)
		r = dir_get(d, p, sizeof(p));
	if (r < 0)
		return r;
	ent->name_size = (size_t)le_u16(p + 6) + 1;
	if (ent->name_size > SQFS_MAX_NAME)
		return -EIO;
	r = dir_get(d, ent->name, ent->name_size);
	if (r < 0)
		return r;
	ent->name[ent->name_size] = '\0';
	ent->ref = ((uint64_t)d->run_block << 16) | le_u16(p);
	ent->number = (uint32_t)((int64_t)d->run_number + (int16_t)le_u16(p + 2));
	ent->type = le_u16(p + 4);
	d->n_left--;
	d->n_read++;
	/* The next run begins after the last entry of a run. */
	ent->cookie = d->n_left == 0 ? d->pos << DIR_COOKIE_BITS
				     : d->run_pos << DIR_COOKIE_BITS | d->n_read;
	r = dirent_check(d, ent);
	return r < 0 ? r : 1;
}

/* Checks that the listing has the name of an index entry at its place. */
static int dir_check_skip(struct sqfs_image *img, const struct sqfs_inode *inode,
			  const struct dir_skip *skip, const char *name, size_t size)
{
	struct sqfs_dir d = {
		.size = inode->size,
		.n_inodes = sqfs_image_get_super(img)->n_inodes,
	};
	struct sqfs_dirent ent;
	int r = dir_apply_skip(&d, img, inode, skip);

	if (r < 0)
		return r;
	r = sqfs_dir_read(&d, &ent);
	sqfs_dir_end(&d);
	if (r < 0)
		return r;
	return r == 1 && name_compare(ent.name, ent.name_size, name, size) == 0 ? 0 : -EIO;
}

int sqfs_dir_check_index(struct sqfs_image *img, const struct sqfs_inode *inode)
{
	char name[SQFS_MAX_NAME];
	struct dir_skip skip = { 0 };
	struct sqfs_meta m;
	size_t size;
	int r = 0;

	sqfs_meta_init(&m, img, inode->body);
	for (uint32_t i = 0; i < inode->dir.n_index && r == 0; i++) {
		uint32_t before = skip.pos;

		r = dir_read_index(&m, &skip, name, &size);
		if (r == 0 && i > 0 && skip.pos <= before)
			r = -EIO;
		if (r == 0)
			r = dir_check_skip(img, inode, &skip, name, size);
	}
	sqfs_meta_deinit(&m);
	return r;
}

int sqfs_dir_find(struct sqfs_image *img, const struct sqfs_inode *inode, const char *name,
		  struct sqfs_dirent *ent)
{
	size_t size = strlen(name);
	struct sqfs_dir d;
	int r;

	r = dir_begin_by(&d, img, inode, name, 0);
	if (r < 0)
		return r;
	while ((r = sqfs_dir_read(&d, ent)) == 1) {
		if (ent->name_size == size && memcmp(ent->name, name, size) == 0)
			break;
		/* Only the first byte is compared, as in Linux, because some makers sort the rest
		 * in another way. */
		if ((uint8_t)ent->name[0] > (uint8_t)name[0]) {
			r = 0;
			break;
		}
	}
	sqfs_dir_end(&d);
	return r;
}

int sqfs_dir_resolve(struct sqfs_image *img, const char *path, struct sqfs_inode *inode)
{
	struct sqfs_inode at;
	struct sqfs_dirent ent;
	char name[SQFS_MAX_NAME + 1];
	int r;

	r = sqfs_inode_load(img, sqfs_inode_get_root(img), &at);
	while (r == 0 && *path) {
		size_t size = strcspn(path, "/");

		if (size > SQFS_MAX_NAME || at.type != SQFS_TYPE_DIR)
			return 0;
		memcpy(name, path, size);
		name[size] = '\0';
		path += size + (path[size] == '/');
		if (size == 0 || !strcmp(name, "."))
			continue;
		r = sqfs_dir_find(img, &at, name, &ent);
		if (r == 0)
			return 0;
		if (r == 1)
			r = sqfs_inode_load(img, ent.ref, &at);
	}
	if (r < 0)
		return r;
	*inode = at;
	return 1;
}
