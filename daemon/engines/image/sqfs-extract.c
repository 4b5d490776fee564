/*
 * The same threads list directories and write files. They take work from the end of one list. So a
 * thread continues with the entries that it found last, and no other thread makes files in that
 * directory. If the list is too short for all threads, a listing adds files to it in batches for
 * the others. The files of a directory are written in the order of its listing, which is nearly the
 * order of their data in the image, so a block or fragment is decompressed once while its files are
 * written.
 *
 * Only one thread at a time may use the tree, except to make files and links that have their places
 * already. No thread waits while it holds places, so the call of tree_set_settle() can wait until
 * they are used.
 *
 * With strip=, files of several directories may get the same name. Then there is one thread, and
 * the last file is kept. A file with several names is written under the first name and linked under
 * the others. If a name was used twice, the file is written again, because that name may have been
 * its first one.
 */
#include "daemon/engines/image/sqfs-extract.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dataset/dataset.h"
#include "common/dataset/path-filter.h"
#include "common/dataset/member-path.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/image/sqfs-dir.h"
#include "daemon/engines/image/sqfs-extract-internal.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"

struct extract_dir { /* a directory that must be listed */
	struct work work;
	uint64_t ref;
	char path[]; /* path in the image */
};

static void extract_deinit(struct extract *x)
{
	workq_free(x->works);
	tdestroy(x->links, free);
	tree_free(x->tree);
	path_filter_free(x->filter);
	pthread_mutex_destroy(&x->lock);
	pthread_mutex_destroy(&x->places_lock);
	pthread_cond_destroy(&x->places_put);
	pthread_mutex_destroy(&x->error_lock);
}

/* The state of listing one directory. */
struct listing {
	struct extract *x;
	const struct extract_dir *dir;
	struct extract_batch *batch; /* files that were found and not given to a thread; NULL:
				      * none */
};

static int extract_file(struct listing *l, const struct sqfs_inode *inode, const char *path,
			struct error *err)
{
	atomic_fetch_add(&l->x->n_bytes, inode->size);
	return extract_goes_at_once(inode)
		       ? extract_file_at_once(l->x, inode, path, err)
		       : extract_add_to_batch(l->x, &l->batch, inode, path, err);
}

static void run_dir(struct work *work, void *arg);

static int push_dir(struct extract *x, uint64_t ref, const char *path, struct error *err)
{
	size_t size = strlen(path) + 1;
	struct extract_dir *d = malloc(sizeof(*d) + size);

	if (!d)
		return extract_no_memory(err);
	d->work.run = run_dir;
	d->ref = ref;
	memcpy(d->path, path, size);
	workq_push(x->works, &d->work);
	return 0;
}

/* path: the rest of full after subdir= and strip=. If it is not taken, the directory is not made,
 * but entries below it may be taken. */
static int extract_dir(struct extract *x, const struct sqfs_inode *inode, const char *full,
		       const char *path, bool taken, struct error *err)
{
	struct tree_meta meta = extract_get_meta(inode);
	int r = 0;

	if (taken && *path && path_filter_prunes(x->filter, path))
		return 0;
	/* With include=, a directory is made when an entry below it is taken. */
	if (taken && (!*path || path_filter_takes(x->filter, path))) {
		pthread_mutex_lock(&x->lock);
		r = tree_add_dir(x->tree, path, &meta, err);
		pthread_mutex_unlock(&x->lock);
	}
	return r < 0 ? r : push_dir(x, inode->ref, full, err);
}

/* full: the path in the image. */
static int extract_inode(struct listing *l, const struct sqfs_inode *inode, const char *full,
			 struct error *err)
{
	const struct dataset *ds = l->x->io->ds;
	char path[MEMBER_PATH_SIZE];
	bool taken;

	strcpy(path, full);
	taken = member_path_cut(path, ds->subdir, ds->strip);
	if (inode->type == SQFS_TYPE_DIR)
		return extract_dir(l->x, inode, full, path, taken, err);
	if (!taken || !path_filter_takes(l->x->filter, path))
		return 0;
	if (!*path)
		return error_set_hint(err,
				      error_set(err, EINVAL,
						"the image has no directory %s (subdir=)",
						ds->subdir),
				      "unsquashfs -l shows what it has");
	if (inode->type == SQFS_TYPE_FILE)
		return extract_file(l, inode, path, err);
	if (inode->type == SQFS_TYPE_SYMLINK)
		return extract_symlink(l->x, inode, path, err);
	atomic_fetch_add(&l->x->n_hidden, 1);
	return 0;
}

static int extract_entry(struct listing *l, const struct sqfs_dirent *ent, struct error *err)
{
	const char *dir = l->dir->path;
	char full[MEMBER_PATH_SIZE];
	struct sqfs_inode inode;
	int r;

	r = snprintf(full, sizeof(full), "%s%s%s", dir, *dir ? "/" : "", ent->name);
	if (r >= (int)sizeof(full) || ent->name_size > MEMBER_MAX_NAME)
		return error_set(err, ENAMETOOLONG, "the image has too long a name: %.200s…", full);
	r = stage_io_check(l->x->io, err);
	if (r < 0)
		return r;
	r = sqfs_inode_load(l->x->img, ent->ref, &inode);
	if (r < 0)
		return sqfs_content_fail(r, full, err);
	return extract_inode(l, &inode, full, err);
}

static int extract_listing(struct listing *l, struct error *err)
{
	const char *path = *l->dir->path ? l->dir->path : "/";
	struct sqfs_image *img = l->x->img;
	struct sqfs_inode inode;
	struct sqfs_dirent ent;
	struct sqfs_dir d;
	int r, failed = 0;

	r = sqfs_inode_load(img, l->dir->ref, &inode);
	if (r == 0)
		r = sqfs_dir_begin(&d, img, &inode, SQFS_DIR_START);
	if (r < 0)
		return sqfs_content_fail(r, path, err);
	while (failed == 0 && !atomic_load(&l->x->failed) && (r = sqfs_dir_read(&d, &ent)) == 1)
		failed = extract_entry(l, &ent, err);
	sqfs_dir_end(&d);
	if (failed == 0 && r < 0)
		return sqfs_content_fail(r, path, err);
	return failed;
}

static void run_dir(struct work *work, void *arg)
{
	_cleanup_(freep) struct extract_dir *dir = (struct extract_dir *)work;
	struct extract *x = arg;
	struct listing l = { x, dir };
	struct error err = ERROR_INIT;

	if (atomic_load(&x->failed))
		return;
	if (extract_listing(&l, &err) < 0)
		extract_note_failure(x, &err);
	extract_give_batch(x, &l.batch); /* after a failure, the batch is dropped */
}

/* ---- the whole ---- */

static int extract_all(struct extract *x, struct error *err)
{
	static const struct extract_dir none;
	struct listing top = { x, &none };
	struct sqfs_inode root;
	int r;

	r = sqfs_inode_load(x->img, sqfs_inode_get_root(x->img), &root);
	if (r < 0)
		return sqfs_content_fail(r, "/", err);
	r = extract_inode(&top, &root, "", err);
	/* With strip=, a name may occur twice, and the last one must be kept. So only one thread
	 * works. */
	workq_run(x->works, x->io->ds->strip > 0 ? 1 : x->io->n_threads);
	if (r < 0 || !atomic_load(&x->failed))
		return r;
	*err = x->error;
	return err->code;
}

int sqfs_extract(struct stage_io *io, struct sqfs_image *img, int root, uint64_t size,
		 uint64_t content, struct sqfs_extract_result *result, struct error *err)
{
	_cleanup_(extract_deinit) struct extract x = {
		.io = io,
		.img = img,
		.content = { io, img, size, content },
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.places_lock = PTHREAD_MUTEX_INITIALIZER,
		.places_put = PTHREAD_COND_INITIALIZER,
		.error_lock = PTHREAD_MUTEX_INITIALIZER,
	};
	struct tree_counts counts;
	int r;

	if (workq_new(&x.works, &x) < 0)
		return extract_no_memory(err);
	r = path_filter_new(&x.filter, io->ds, err);
	if (r == 0)
		r = tree_new(&x.tree, root, io, err);
	if (r < 0)
		return r;
	tree_set_settle(x.tree, extract_settle, &x);
	r = extract_all(&x, err);
	if (r == 0)
		r = tree_finish(x.tree, &result->root_mode, err);
	if (r < 0)
		return r;
	tree_get_counts(x.tree, &counts);
	result->n_files = counts.files;
	result->bytes = atomic_load(&x.n_bytes);
	result->n_hidden = atomic_load(&x.n_hidden);
	return 0;
}
