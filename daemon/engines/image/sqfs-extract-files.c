/*
 * Files are processed in batches. The files of a batch get their places in the tree together, and
 * then one thread makes and writes them.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/image/sqfs-extract-internal.h"
#include "daemon/engines/image/sqfs-inode.h"

#define BATCH_FILES 256
#define BATCH_BYTES (8u << 20)

struct extract_batch { /* several files of one directory */
	struct work work;
	size_t n;
	uint64_t bytes;
	struct extract_file *files[BATCH_FILES];
};

void extract_note_failure(struct extract *x, const struct error *err)
{
	pthread_mutex_lock(&x->error_lock);
	if (!atomic_exchange(&x->failed, true))
		x->error = *err;
	pthread_mutex_unlock(&x->error_lock);
}

/* ---- places ---- */

static void begin_placing(struct extract *x)
{
	pthread_mutex_lock(&x->places_lock);
	x->n_placing++;
	pthread_mutex_unlock(&x->places_lock);
}

static void end_placing(struct extract *x)
{
	pthread_mutex_lock(&x->places_lock);
	if (--x->n_placing == 0)
		pthread_cond_broadcast(&x->places_put);
	pthread_mutex_unlock(&x->places_lock);
}

/* Called by the tree, with the lock held. With several threads, each name is added only once, so
 * this only has to wait when the tree empties its table: then no directory may be in use. */
void extract_settle(void *arg, const char *path, size_t n)
{
	struct extract *x = arg;

	if (path)
		return;
	pthread_mutex_lock(&x->places_lock);
	while (x->n_placing > 0)
		pthread_cond_wait(&x->places_put, &x->places_lock);
	pthread_mutex_unlock(&x->places_lock);
}

/* ---- files ---- */

struct extract_file *extract_new_file(const struct sqfs_inode *inode, const char *path)
{
	size_t size = strlen(path) + 1;
	struct extract_file *f = malloc(sizeof(*f) + size);

	if (f) {
		f->inode = *inode;
		memcpy(f->path, path, size);
	}
	return f;
}

int extract_make_file(struct extract *x, struct extract_file *f, int *fdp, struct error *err)
{
	struct tree_meta meta = extract_get_meta(&f->inode);

	return tree_make_file(x->tree, &f->place, f->path, &meta, f->inode.size,
			      sqfs_content_is_sparse(&f->inode), fdp, err);
}

int extract_end_file(struct extract *x, struct extract_file *f, int *fdp, struct error *err)
{
	struct tree_meta meta = extract_get_meta(&f->inode);

	return tree_end_file(x->tree, fdp, f->path, &meta, err);
}

int extract_get_place(struct extract *x, struct extract_file *f, struct error *err)
{
	return tree_get_file_place(x->tree, f->path, f->inode.size,
				   sqfs_content_is_sparse(&f->inode), &f->place, err);
}

static int write_file(struct extract *x, struct extract_file *f, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	r = extract_make_file(x, f, &fd, err);
	if (r == 0)
		r = sqfs_content_write(&x->content, &f->inode, 0, f->inode.size, fd, f->path, err);
	return r < 0 ? r : extract_end_file(x, f, &fd, err);
}

/* Gets places for all files of the batch, or for the first ones. Returns their number. All are in
 * one directory, so the tree does not forget it in between. */
static size_t get_places(struct extract *x, struct extract_batch *b, struct error *err)
{
	size_t n = 0;

	pthread_mutex_lock(&x->lock);
	while (n < b->n && extract_get_place(x, b->files[n], err) == 0)
		n++;
	begin_placing(x);
	pthread_mutex_unlock(&x->lock);
	return n;
}

static void batch_free(struct extract_batch *b)
{
	for (size_t i = 0; b && i < b->n; i++)
		free(b->files[i]);
	free(b);
}

DEFINE_FREEP(struct extract_batch, batch_free)

static int write_batch(struct extract *x, struct extract_batch *b, struct error *err)
{
	size_t n = get_places(x, b, err);
	int r = n < b->n ? err->code : 0;

	for (size_t i = 0; i < n; i++) {
		if (r == 0 && !atomic_load(&x->failed))
			r = write_file(x, b->files[i], err);
		tree_put_place(&b->files[i]->place);
	}
	end_placing(x);
	if (r == 0)
		stage_io_add_progress(x->io, 0, n);
	return r;
}

static void run_batch(struct work *work, void *arg)
{
	_cleanup_(batch_freep) struct extract_batch *b = (struct extract_batch *)work;
	struct error err = ERROR_INIT;
	struct extract *x = arg;

	if (!atomic_load(&x->failed) && write_batch(x, b, &err) < 0)
		extract_note_failure(x, &err);
}

void extract_give_work(struct extract *x, struct work *work)
{
	if (workq_get_queued(x->works) < x->io->n_threads)
		workq_push(x->works, work);
	else
		work->run(work, x);
}

void extract_give_batch(struct extract *x, struct extract_batch **bp)
{
	if (*bp)
		extract_give_work(x, &steal_ptr(*bp)->work);
}

int extract_add_to_batch(struct extract *x, struct extract_batch **bp,
			 const struct sqfs_inode *inode, const char *path, struct error *err)
{
	struct extract_file *f = extract_new_file(inode, path);
	struct extract_batch *b = *bp;

	if (!b)
		b = *bp = calloc(1, sizeof(*b));
	if (!f || !b) {
		free(f);
		return extract_no_memory(err);
	}
	b->work.run = run_batch;
	b->files[b->n++] = f;
	b->bytes += inode->size;
	if (b->n == BATCH_FILES || b->bytes >= BATCH_BYTES)
		extract_give_batch(x, bp);
	return 0;
}
