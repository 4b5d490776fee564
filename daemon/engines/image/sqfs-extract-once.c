/*
 * All threads write a big file, a range each. A file with several names must exist before its next
 * name is found, so it is made when its first name is found.
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/image/sqfs-extract-internal.h"

/* Several threads write a larger file, one range at a time. */
#define RANGE_BYTES (16u << 20)

struct extract_big {	      /* a file that is open while its ranges are written */
	atomic_size_t n_refs; /* remaining ranges, and the thread that adds them */
	int fd;
	struct extract_file *file;
};

struct extract_range {
	struct work work;
	struct extract_big *big;
	uint64_t from;
};

struct extract_link { /* the first name of an inode with several names, if it still is a name of
		       * it */
	uint32_t number;
	uint64_t n_replaced; /* replaced names at that time; if there are more now, this name may
			      * have been replaced */
	char path[];	     /* path in the tree */
};

/* Drops a reference. The last thread sets the file's time. */
static int big_put(struct extract *x, struct extract_big *big, struct error *err)
{
	int r = 0;

	if (atomic_fetch_sub(&big->n_refs, 1) > 1)
		return 0;
	if (!atomic_load(&x->failed))
		r = extract_end_file(x, big->file, &big->fd, err);
	stage_io_add_progress(x->io, 0, 1);
	fd_closep(&big->fd);
	free(big->file);
	free(big);
	return r;
}

static void run_range(struct work *work, void *arg)
{
	_cleanup_(freep) struct extract_range *range = (struct extract_range *)work;
	const struct extract_file *f = range->big->file;
	struct error err = ERROR_INIT;
	struct extract *x = arg;

	if (!atomic_load(&x->failed) &&
	    sqfs_content_write(&x->content, &f->inode, range->from, range->from + RANGE_BYTES,
			       range->big->fd, f->path, &err) < 0)
		extract_note_failure(x, &err);
	if (big_put(x, range->big, &err) < 0)
		extract_note_failure(x, &err);
}

static int give_ranges(struct extract *x, struct extract_big *big, struct error *err)
{
	struct extract_range *range;

	for (uint64_t from = 0; from < big->file->inode.size && !atomic_load(&x->failed);
	     from += RANGE_BYTES) {
		range = calloc(1, sizeof(*range));
		if (!range)
			return extract_no_memory(err);
		*range = (struct extract_range){ { .run = run_range }, big, from };
		atomic_fetch_add(&big->n_refs, 1);
		extract_give_work(x, &range->work);
	}
	return 0;
}

static void big_abandon(struct extract_big *big)
{
	fd_closep(&big->fd);
	free(big->file);
	free(big);
}

/* ---- names ---- */

static int compare_links(const void *a, const void *b)
{
	const struct extract_link *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* Called with the lock held. Returns 1: the file exists under another name, and was linked; 0: it
 * does not exist, or that name may be another file now. Then path is stored, and the file must be
 * made before the lock is released. */
static int link_again(struct extract *x, const struct sqfs_inode *inode, const char *path,
		      struct error *err)
{
	size_t size = strlen(path) + 1;
	struct extract_link *link, **found;
	struct tree_counts counts;
	int r;

	if (inode->n_links < 2)
		return 0;
	link = malloc(sizeof(*link) + size);
	if (!link)
		return extract_no_memory(err);
	tree_get_counts(x->tree, &counts);
	link->number = inode->number;
	link->n_replaced = counts.replaced;
	memcpy(link->path, path, size);
	found = tsearch(link, &x->links, compare_links);
	if (found && *found == link)
		return 0;
	if (found && (*found)->n_replaced != link->n_replaced) {
		free(*found);
		*found = link;
		return 0;
	}
	free(link);
	if (!found)
		return extract_no_memory(err);
	r = tree_add_hardlink(x->tree, path, (*found)->path, err);
	return r < 0 ? r : 1;
}

/* Makes a big file. Returns 1 if a link to another name of it was made instead. */
static int make_big(struct extract *x, struct extract_big *big, struct error *err)
{
	struct extract_file *f = big->file;
	int r;

	pthread_mutex_lock(&x->lock);
	r = link_again(x, &f->inode, f->path, err);
	if (r == 0)
		r = extract_get_place(x, f, err);
	if (r == 0) {
		r = extract_make_file(x, f, &big->fd, err);
		tree_put_place(&f->place);
	}
	pthread_mutex_unlock(&x->lock);
	return r;
}

bool extract_goes_at_once(const struct sqfs_inode *inode)
{
	return inode->n_links > 1 || inode->size > RANGE_BYTES;
}

int extract_file_at_once(struct extract *x, const struct sqfs_inode *inode, const char *path,
			 struct error *err)
{
	struct extract_big *big = calloc(1, sizeof(*big));
	int r, failed;

	if (!big)
		return extract_no_memory(err);
	*big = (struct extract_big){ .n_refs = 1, .fd = -1, .file = extract_new_file(inode, path) };
	r = big->file ? make_big(x, big, err) : extract_no_memory(err);
	if (r != 0) {
		big_abandon(big);
		if (r == 1)
			stage_io_add_progress(x->io, 0, 1);
		return r < 0 ? r : 0;
	}
	failed = give_ranges(x, big, err);
	if (failed < 0)
		extract_note_failure(x, err);
	r = big_put(x, big, err);
	return failed < 0 ? failed : r;
}

int extract_symlink(struct extract *x, const struct sqfs_inode *inode, const char *path,
		    struct error *err)
{
	struct tree_meta meta = extract_get_meta(inode);
	char text[SQFS_MAX_SYMLINK + 1];
	int r;

	r = sqfs_inode_read_link(x->img, inode, text);
	if (r < 0)
		return sqfs_content_fail(r, path, err);
	pthread_mutex_lock(&x->lock);
	r = link_again(x, inode, path, err);
	if (r == 0)
		r = tree_add_symlink(x->tree, path, text, &meta, err);
	pthread_mutex_unlock(&x->lock);
	if (r >= 0)
		stage_io_add_progress(x->io, 0, 1);
	return r < 0 ? r : 0;
}
