/*
 * Files of up to SQFS_INDEX_STEP blocks need no mark except the start. For larger files, a few
 * lists of marks are kept, and a new list replaces the least recently used one. A list grows as far
 * as the file was read. When it grows, metadata is read under the lock, once for each 2048 blocks.
 */
#include "daemon/engines/image/sqfs-index.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/util/le.h"
#include "daemon/engines/image/sqfs-image.h"
#include "daemon/engines/image/sqfs-inode.h"

enum {
	INDEX_FILES = 32,
	INDEX_CHUNK = 256, /* numbers that are read at once */
};

struct index_file {
	uint64_t ref; /* 0: this entry is empty */
	uint64_t used;
	struct sqfs_mark *marks;
	size_t n_marks, max_marks;
};

struct sqfs_index {
	pthread_mutex_t lock;
	uint64_t clock;
	struct index_file files[INDEX_FILES];
};

int sqfs_index_new(struct sqfs_index **xp)
{
	struct sqfs_index *x = calloc(1, sizeof(*x));

	if (!x)
		return -ENOMEM;
	pthread_mutex_init(&x->lock, NULL);
	*xp = x;
	return 0;
}

void sqfs_index_free(struct sqfs_index *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < INDEX_FILES; i++)
		free(x->files[i].marks);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static struct sqfs_mark index_start(const struct sqfs_inode *inode)
{
	return (struct sqfs_mark){ inode->body, inode->file.start };
}

/* Returns the inode's list of marks, or the oldest list, emptied for the inode. */
static struct index_file *index_get_file(struct sqfs_index *x, const struct sqfs_inode *inode)
{
	struct index_file *f = &x->files[0];

	for (size_t i = 0; i < INDEX_FILES; i++) {
		if (x->files[i].used > 0 && x->files[i].ref == inode->ref) {
			f = &x->files[i];
			f->used = ++x->clock;
			return f;
		}
		if (x->files[i].used < f->used)
			f = &x->files[i];
	}
	f->ref = inode->ref;
	f->used = ++x->clock;
	f->n_marks = 0;
	return f;
}

static int index_append(struct index_file *f, const struct sqfs_mark *mark)
{
	if (f->n_marks == f->max_marks) {
		size_t n = f->max_marks ? f->max_marks * 2 : 16;
		struct sqfs_mark *marks = reallocarray(f->marks, n, sizeof(*marks));

		if (!marks)
			return -ENOMEM;
		f->marks = marks;
		f->max_marks = n;
	}
	f->marks[f->n_marks++] = *mark;
	return 0;
}

/* Advances a mark by one step. */
static int mark_advance(struct sqfs_image *img, struct sqfs_mark *mark)
{
	uint8_t words[INDEX_CHUNK * 4];
	struct sqfs_meta m;
	int r = 0;

	sqfs_meta_init(&m, img, mark->place);
	for (size_t done = 0; done < SQFS_INDEX_STEP; done += INDEX_CHUNK) {
		r = sqfs_meta_read(&m, words, sizeof(words));
		if (r < 0)
			break;
		for (size_t i = 0; i < INDEX_CHUNK; i++)
			mark->offset += SQFS_BLOCK_SIZE(le_u32(words + i * 4));
	}
	mark->place = m.place;
	sqfs_meta_deinit(&m);
	return r;
}

static int index_grow(struct index_file *f, struct sqfs_image *img, const struct sqfs_inode *inode,
		      size_t n_marks)
{
	struct sqfs_mark mark = index_start(inode);
	int r;

	if (f->n_marks == 0) {
		r = index_append(f, &mark);
		if (r < 0)
			return r;
	}
	while (f->n_marks < n_marks) {
		mark = f->marks[f->n_marks - 1];
		r = mark_advance(img, &mark);
		if (r == 0)
			r = index_append(f, &mark);
		if (r < 0)
			return r;
	}
	return 0;
}

int sqfs_index_find(struct sqfs_index *x, struct sqfs_image *img, const struct sqfs_inode *inode,
		    uint64_t *blockp, struct sqfs_mark *mark)
{
	size_t n = *blockp / SQFS_INDEX_STEP;
	struct index_file *f;
	int r;

	if (n == 0) {
		*mark = index_start(inode);
		*blockp = 0;
		return 0;
	}
	pthread_mutex_lock(&x->lock);
	f = index_get_file(x, inode);
	r = index_grow(f, img, inode, n + 1);
	if (r == 0)
		*mark = f->marks[n];
	pthread_mutex_unlock(&x->lock);
	if (r == 0)
		*blockp = (uint64_t)n * SQFS_INDEX_STEP;
	return r;
}
