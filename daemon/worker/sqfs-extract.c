/*
 * The tree is walked in the order of the listings, which is nearly that of the data in the image,
 * so that a block or fragment is decompressed once while its files are written. Directories still
 * to come wait on a list; a path is made anew for each, so depth costs no stack.
 *
 * A file with several names is written under the first that is taken, and linked under the others.
 */
#include "daemon/worker/sqfs-extract.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/filter.h"
#include "daemon/worker/member-path.h"
#include "daemon/worker/sqfs-dir.h"
#include "daemon/worker/sqfs-file.h"
#include "daemon/worker/sqfs-image.h"
#include "daemon/worker/sqfs-inode.h"
#include "daemon/worker/sqfs-scratch.h"
#include "daemon/worker/tree.h"

enum {
	EXTRACT_READ = 1 << 20,
	EXTRACT_MAX_EXTENTS = EXTRACT_READ / SQFS_MIN_BLOCK_SIZE + 2,
};

struct extract_dir {
	struct extract_dir *next;
	uint64_t ref;
	char path[]; /* in the image */
};

struct extract_link { /* of an inode with several names: the first */
	uint32_t number;
	char path[]; /* in the tree */
};

struct extract {
	struct ctx *ctx;
	struct sqfs_image *img;
	struct tree *tree;
	struct filter *filter;
	struct extract_dir *dirs; /* last in, first out */
	void *links;		  /* tsearch(3), by number */
	uint64_t size, content, done, shown;
	struct sqfs_extract_result result;
};

static void extract_deinit(struct extract *x)
{
	struct extract_dir *next;

	for (struct extract_dir *d = x->dirs; d; d = next) {
		next = d->next;
		free(d);
	}
	tdestroy(x->links, free);
	tree_free(x->tree);
	filter_free(x->filter);
}

static int compare_links(const void *a, const void *b)
{
	const struct extract_link *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* Content as a part of the image, so that progress ends at what facts call the total. */
static void extract_progress(struct extract *x, uint64_t bytes)
{
	double part;
	uint64_t at;

	x->done += bytes;
	part = x->content > 0 ? (double)x->done / (double)x->content : 0;
	at = (uint64_t)(part * (double)x->size);
	if (at > x->size)
		at = x->size;
	if (at <= x->shown)
		return;
	ctx_add_progress(x->ctx, at - x->shown, 0);
	x->shown = at;
}

static int fail_read(int r, const char *path, struct error *err)
{
	if (r == -EIO)
		return error_mend(err,
				  error_set(err, EIO, "image is damaged: %s can't be read", path),
				  "make or copy it again");
	return error_errno(err, -r, "read %s in the image", path);
}

static int write_at(int fd, const void *data, size_t size, uint64_t offset, const char *path,
		    struct error *err)
{
	const char *p = data;

	while (size > 0) {
		ssize_t n = pwrite(fd, p, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "write %s", path);
		p += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

static bool inode_is_sparse(const struct sqfs_inode *inode)
{
	return inode->file.n_sparse > 0;
}

/* Holes stay holes in files that are known to have some; those are charged for what is written. */
static int write_extents(struct extract *x, int fd, const struct sqfs_inode *inode,
			 const struct sqfs_extent *extents, size_t n, uint64_t *posp,
			 const char *path, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct sqfs_extent *e = &extents[i];

		if (!e->hole || !inode_is_sparse(inode)) {
			if (inode_is_sparse(inode))
				r = ctx_charge(x->ctx, e->size, 0, err);
			if (r == 0)
				r = write_at(fd, e->data, e->size, *posp, path, err);
		}
		*posp += e->size;
		extract_progress(x, e->size);
	}
	return r;
}

static int write_content(struct extract *x, int fd, const struct sqfs_inode *inode,
			 const char *path, struct error *err)
{
	struct sqfs_extent extents[EXTRACT_MAX_EXTENTS];
	uint64_t pos = 0;
	size_t n;
	void *buf;
	int r;

	buf = sqfs_scratch_get(inode->size < EXTRACT_READ ? inode->size : EXTRACT_READ);
	if (!buf)
		return error_set(err, ENOMEM, "no memory to extract the image");
	while (pos < inode->size) {
		r = ctx_check(x->ctx, err);
		if (r < 0)
			return r;
		r = sqfs_file_read(x->img, inode, pos, EXTRACT_READ, extents, &n);
		if (r < 0)
			return fail_read(r, path, err);
		r = sqfs_file_load(x->img, extents, n, buf);
		r = r < 0 ? fail_read(r, path, err)
			  : write_extents(x, fd, inode, extents, n, &pos, path, err);
		sqfs_file_release(x->img, extents, n);
		if (r < 0)
			return r;
	}
	return 0;
}

static struct tree_meta get_meta(const struct sqfs_inode *inode)
{
	return (struct tree_meta){ .mode = inode->mode, .mtime = { .tv_sec = inode->mtime } };
}

/* 1: the file is there under another name and was linked; 0: it is not. Then path is remembered. */
static int link_again(struct extract *x, const struct sqfs_inode *inode, const char *path,
		      struct error *err)
{
	size_t size = strlen(path) + 1;
	struct extract_link *link, **found;
	int r;

	if (inode->n_links < 2)
		return 0;
	link = malloc(sizeof(*link) + size);
	if (!link)
		return error_set(err, ENOMEM, "no memory to extract the image");
	link->number = inode->number;
	memcpy(link->path, path, size);
	found = tsearch(link, &x->links, compare_links);
	if (!found)
		free(link);
	if (!found)
		return error_set(err, ENOMEM, "no memory to extract the image");
	if (*found == link)
		return 0;
	free(link);
	r = tree_add_hardlink(x->tree, path, (*found)->path, err);
	return r < 0 ? r : 1;
}

static int extract_file(struct extract *x, const struct sqfs_inode *inode, const char *path,
			struct error *err)
{
	struct tree_meta meta = get_meta(inode);
	_cleanup_(fd_closep) int fd = -1;
	int r;

	r = link_again(x, inode, path, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = tree_add_file(x->tree, path, &meta, inode->size, inode_is_sparse(inode), &fd, err);
	if (r == 0)
		r = write_content(x, fd, inode, path, err);
	if (r == 0)
		r = tree_end_file(x->tree, fd, path, &meta, err);
	x->result.bytes += inode->size;
	return r;
}

static int extract_symlink(struct extract *x, const struct sqfs_inode *inode, const char *path,
			   struct error *err)
{
	struct tree_meta meta = get_meta(inode);
	char text[SQFS_MAX_SYMLINK + 1];
	int r;

	r = link_again(x, inode, path, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = sqfs_inode_read_link(x->img, inode, text);
	if (r < 0)
		return fail_read(r, path, err);
	return tree_add_symlink(x->tree, path, text, &meta, err);
}

static int push_dir(struct extract *x, uint64_t ref, const char *path, struct error *err)
{
	size_t size = strlen(path) + 1;
	struct extract_dir *d = malloc(sizeof(*d) + size);

	if (!d)
		return error_set(err, ENOMEM, "no memory to extract the image");
	d->ref = ref;
	memcpy(d->path, path, size);
	d->next = x->dirs;
	x->dirs = d;
	return 0;
}

/* path: what subdir= and strip= leave of full. Not taken: nothing, but perhaps of what is below. */
static int extract_dir(struct extract *x, const struct sqfs_inode *inode, const char *full,
		       const char *path, bool taken, struct error *err)
{
	struct tree_meta meta = get_meta(inode);
	int r = 0;

	if (taken && *path && filter_prunes(x->filter, path))
		return 0;
	/* With includes a directory comes along with what is taken below it. */
	if (taken && (!*path || filter_takes(x->filter, path)))
		r = tree_add_dir(x->tree, path, &meta, err);
	return r < 0 ? r : push_dir(x, inode->ref, full, err);
}

/* full: path in the image. */
static int extract_inode(struct extract *x, const struct sqfs_inode *inode, const char *full,
			 struct error *err)
{
	const struct dataset *ds = x->ctx->ds;
	char path[MEMBER_PATH_SIZE];
	bool taken;
	int r;

	strcpy(path, full);
	taken = member_path_cut(path, ds->subdir, ds->strip);
	if (inode->type == SQFS_TYPE_DIR)
		return extract_dir(x, inode, full, path, taken, err);
	if (!taken || !filter_takes(x->filter, path))
		return 0;
	if (!*path)
		return error_mend(err,
				  error_set(err, EINVAL, "the image has no directory %s (subdir=)",
					    ds->subdir),
				  "unsquashfs -l shows what it has");
	if (inode->type == SQFS_TYPE_FILE)
		r = extract_file(x, inode, path, err);
	else if (inode->type == SQFS_TYPE_SYMLINK)
		r = extract_symlink(x, inode, path, err);
	else
		x->result.n_hidden++, r = 0;
	if (r == 0)
		ctx_add_progress(x->ctx, 0, 1);
	return r;
}

static int extract_entry(struct extract *x, const char *dir, const struct sqfs_dirent *ent,
			 struct error *err)
{
	char full[MEMBER_PATH_SIZE];
	struct sqfs_inode inode;
	int r;

	r = snprintf(full, sizeof(full), "%s%s%s", dir, *dir ? "/" : "", ent->name);
	if (r >= (int)sizeof(full) || ent->name_size > MEMBER_MAX_NAME)
		return error_set(err, ENAMETOOLONG, "the image has too long a name: %.200s…", full);
	r = ctx_check(x->ctx, err);
	if (r < 0)
		return r;
	r = sqfs_inode_load(x->img, ent->ref, &inode);
	if (r < 0)
		return fail_read(r, full, err);
	return extract_inode(x, &inode, full, err);
}

static int extract_listing(struct extract *x, const struct extract_dir *dir, struct error *err)
{
	struct sqfs_inode inode;
	struct sqfs_dirent ent;
	struct sqfs_dir d;
	int r, failed = 0;

	r = sqfs_inode_load(x->img, dir->ref, &inode);
	if (r == 0)
		r = sqfs_dir_begin(&d, x->img, &inode, SQFS_DIR_START);
	if (r < 0)
		return fail_read(r, *dir->path ? dir->path : "/", err);
	while (failed == 0 && (r = sqfs_dir_read(&d, &ent)) == 1)
		failed = extract_entry(x, dir->path, &ent, err);
	sqfs_dir_end(&d);
	if (failed == 0 && r < 0)
		return fail_read(r, *dir->path ? dir->path : "/", err);
	return failed;
}

static int extract_all(struct extract *x, struct error *err)
{
	struct sqfs_inode root;
	int r;

	r = sqfs_inode_load(x->img, sqfs_inode_get_root(x->img), &root);
	if (r < 0)
		return fail_read(r, "/", err);
	r = extract_inode(x, &root, "", err);
	while (r == 0 && x->dirs) {
		_cleanup_(freep) struct extract_dir *dir = x->dirs;

		x->dirs = dir->next;
		r = extract_listing(x, dir, err);
	}
	return r;
}

int sqfs_extract(struct ctx *ctx, struct sqfs_image *img, int root, uint64_t size, uint64_t content,
		 struct sqfs_extract_result *result, struct error *err)
{
	_cleanup_(extract_deinit) struct extract x = {
		.ctx = ctx,
		.img = img,
		.size = size,
		.content = content,
	};
	struct tree_counts counts;
	int r;

	r = filter_new(&x.filter, ctx->ds, err);
	if (r == 0)
		r = tree_new(&x.tree, root, ctx, err);
	if (r == 0)
		r = extract_all(&x, err);
	if (r == 0)
		r = tree_finish(x.tree, &x.result.root_mode, err);
	if (r < 0)
		return r;
	tree_get_counts(x.tree, &counts);
	x.result.n_files = counts.files;
	*result = x.result;
	return 0;
}
