/*
 * The reader checks everything again each time that it reads it, so memory safety does not depend
 * on this walk. The walk finds damage early, and its confinement in a child process is a second
 * protection. Every name, every inode, every block list and every fragment entry is looked at; no
 * data block is decompressed, that would take as long as reading the dataset.
 *
 * Directories wait on a stack and are visited once. A directory that is found twice is a loop (or
 * has two names, which no program writes). One bit for each inode number is enough, because a
 * number either belongs to a directory or does not.
 */
#include "daemon/engines/image/sqfs-check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/page.h"
#include "daemon/engines/image/sqfs-dir.h"
#include "daemon/engines/image/sqfs-file.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"

struct check_dir {
	uint64_t ref;
	uint32_t depth;
};

struct check {
	struct sqfs_image *img;
	struct sqfs_counts counts;
	uint8_t *seen; /* one bit for each inode number */
	struct check_dir *dirs;
	size_t n_dirs, max_dirs;
	struct error *err;
};

static void check_deinit(struct check *c)
{
	free(c->seen);
	free(c->dirs);
}

static int check_fail(struct check *c, int r, const char *what, uint32_t number)
{
	if (r == -ENOMEM)
		return error_set(c->err, ENOMEM, "no memory to check the image");
	if (r != -EIO)
		return error_errno(c->err, -r, "read the image");
	return error_set(c->err, EIO, "image is damaged: %s (inode %" PRIu32 ")", what, number);
}

/* Marks an inode number. Returns true if it was marked before. */
static bool check_mark(struct check *c, uint32_t number)
{
	uint8_t bit = (uint8_t)(1u << (number & 7));
	bool was = c->seen[number >> 3] & bit;

	c->seen[number >> 3] |= bit;
	return was;
}

static int check_push(struct check *c, uint64_t ref, uint32_t depth)
{
	if (c->n_dirs == c->max_dirs) {
		size_t n = c->max_dirs ? c->max_dirs * 2 : 256;
		struct check_dir *dirs = reallocarray(c->dirs, n, sizeof(*dirs));

		if (!dirs)
			return -ENOMEM;
		c->dirs = dirs;
		c->max_dirs = n;
	}
	c->dirs[c->n_dirs++] = (struct check_dir){ ref, depth };
	return 0;
}

/* Checks the size of an uncompressed block: it must have all bytes that the file uses, from pos
 * on. */
static bool is_enough(uint32_t word, uint64_t pos, uint64_t need)
{
	return !(word & SQFS_BLOCK_STORED) || SQFS_BLOCK_SIZE(word) >= pos + need;
}

static int check_blocks(struct check *c, const struct sqfs_inode *inode)
{
	uint32_t block_size = sqfs_image_get_super(c->img)->block_size;
	uint64_t left = inode->size;
	struct sqfs_blocks b;
	uint64_t offset;
	uint32_t word;
	int r;

	if (inode->file.n_blocks == 0)
		return 0;
	r = sqfs_blocks_begin(&b, c->img, inode, 0);
	while (r == 0 && b.block < inode->file.n_blocks) {
		r = sqfs_blocks_next(&b, &offset, &word);
		if (r == 0 && word != 0)
			r = sqfs_image_check_block(c->img, offset, word);
		if (r == 0 && word != 0 &&
		    !is_enough(word, 0, left < block_size ? left : block_size))
			r = -EIO;
		left -= left < block_size ? left : block_size;
	}
	sqfs_blocks_end(&b);
	return r;
}

/* Returns the memory that a file takes. Holes take none. If an image claims more holes than the
 * file has, the writer still charges for all bytes that it writes. */
static uint64_t get_charge(const struct sqfs_inode *inode)
{
	uint64_t holes = inode->file.n_sparse;
	uint64_t n = inode->size - (holes < inode->size ? holes : inode->size);

	return page_round_up(n);
}

static int check_file(struct check *c, const struct sqfs_inode *inode)
{
	uint64_t offset, rest;
	uint32_t word;
	int r;

	c->counts.n_files++;
	c->counts.bytes += inode->size;
	c->counts.charge += get_charge(inode);
	r = check_blocks(c, inode);
	if (r < 0)
		return check_fail(c, r, "a file's blocks lie outside of it", inode->number);
	if (inode->file.fragment == SQFS_NO_FRAGMENT)
		return 0;
	r = sqfs_image_get_fragment(c->img, inode->file.fragment, &offset, &word);
	rest = inode->size & (sqfs_image_get_super(c->img)->block_size - 1);
	if (r == 0 && !is_enough(word, inode->file.fragment_pos, rest))
		r = -EIO;
	return r < 0 ? check_fail(c, r, "a file's fragment", inode->number) : 0;
}

static int check_symlink(struct check *c, const struct sqfs_inode *inode)
{
	char text[SQFS_MAX_SYMLINK + 1];
	int r = sqfs_inode_read_link(c->img, inode, text);

	c->counts.n_symlinks++;
	return r < 0 ? check_fail(c, r, "a symbolic link", inode->number) : 0;
}

static int check_inode(struct check *c, const struct sqfs_dirent *ent, uint32_t depth)
{
	struct sqfs_inode inode;
	int r;

	r = sqfs_inode_load(c->img, ent->ref, &inode);
	if (r < 0)
		return check_fail(c, r, "an inode", ent->number);
	if (inode.type != ent->type || inode.number != ent->number)
		return check_fail(c, -EIO, "a name that leads to another inode", ent->number);
	if (check_mark(c, inode.number)) {
		if (inode.type == SQFS_TYPE_DIR)
			return check_fail(c, -EIO, "a directory inside itself", inode.number);
		return 0;
	}
	switch (inode.type) {
	case SQFS_TYPE_DIR:
		if (depth >= SQFS_CHECK_MAX_DEPTH)
			return check_fail(c, -EIO, "directories too deep", inode.number);
		r = check_push(c, ent->ref, depth + 1);
		return r < 0 ? check_fail(c, r, "", 0) : 0;
	case SQFS_TYPE_FILE:
		return check_file(c, &inode);
	case SQFS_TYPE_SYMLINK:
		return check_symlink(c, &inode);
	default:
		c->counts.n_hidden++;
		return 0;
	}
}

static int check_dir(struct check *c, const struct check_dir *dir)
{
	struct sqfs_dirent ent;
	struct sqfs_inode inode = { 0 };
	struct sqfs_dir d;
	int r;

	c->counts.n_dirs++;
	r = sqfs_inode_load(c->img, dir->ref, &inode);
	if (r == 0 && inode.type == SQFS_TYPE_DIR) {
		r = sqfs_dir_check_index(c->img, &inode);
		if (r < 0)
			return check_fail(c, r, "a directory's index", inode.number);
	}
	if (r == 0)
		r = sqfs_dir_begin(&d, c->img, &inode, SQFS_DIR_START);
	if (r < 0)
		return check_fail(c, r, "a directory", inode.number);
	while ((r = sqfs_dir_read(&d, &ent)) == 1) {
		c->counts.n_entries++;
		r = check_inode(c, &ent, dir->depth);
		if (r < 0)
			break;
	}
	sqfs_dir_end(&d);
	if (r < 0 && (!c->err || c->err->code == 0))
		return check_fail(c, r, "a directory's listing", inode.number);
	return r;
}

static int check_root(struct check *c)
{
	struct sqfs_inode root;
	int r;

	r = sqfs_inode_load(c->img, sqfs_inode_get_root(c->img), &root);
	if (r < 0)
		return check_fail(c, r, "its root", 0);
	if (root.type != SQFS_TYPE_DIR)
		return check_fail(c, -EIO, "its root is not a directory", root.number);
	check_mark(c, root.number);
	r = check_push(c, root.ref, 0);
	return r < 0 ? check_fail(c, r, "", 0) : 0;
}

int sqfs_check_walk(struct sqfs_image *img, struct sqfs_counts *counts, struct error *err)
{
	struct error own = ERROR_INIT;
	_cleanup_(check_deinit) struct check c = { .img = img, .err = err ? err : &own };
	uint64_t n_inodes = sqfs_image_get_super(img)->n_inodes;
	int r;

	c.seen = calloc(1, n_inodes / 8 + 1);
	if (!c.seen)
		return check_fail(&c, -ENOMEM, "", 0);
	r = check_root(&c);
	while (r == 0 && c.n_dirs > 0) {
		struct check_dir dir = c.dirs[--c.n_dirs];

		r = check_dir(&c, &dir);
	}
	if (r < 0)
		return r;
	*counts = c.counts;
	return 0;
}
