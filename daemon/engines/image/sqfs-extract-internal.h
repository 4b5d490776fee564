/*
 * Declarations for the files of sqfs-extract: sqfs-extract.c lists directories,
 * sqfs-extract-files.c makes and writes their files in batches, sqfs-extract-once.c writes big
 * files and files with several names at once.
 */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/engines/copy/tree.h"
#include "daemon/engines/copy/workq.h"
#include "daemon/engines/image/sqfs-content.h"
#include "daemon/engines/image/sqfs-inode.h"

struct extract_batch;

struct extract_file { /* has a place in the tree, or will get one */
	struct sqfs_inode inode;
	struct tree_place place;
	char path[]; /* path in the tree */
};

struct extract {
	struct stage_io *io;
	struct sqfs_image *img;
	struct path_filter *filter;
	struct workq *works;
	struct sqfs_content content;
	_Atomic uint64_t n_bytes, n_hidden;

	pthread_mutex_t lock; /* for the fields below */
	struct tree *tree;
	void *links; /* tsearch(3), by inode number */

	pthread_mutex_t places_lock;
	pthread_cond_t places_put;
	size_t n_placing; /* number of batches that have places */

	pthread_mutex_t error_lock;
	struct error error; /* the first failure */
	atomic_bool failed;
};

static inline int extract_no_memory(struct error *err)
{
	return error_set(err, ENOMEM, "no memory to extract the image");
}

static inline struct tree_meta extract_get_meta(const struct sqfs_inode *inode)
{
	return (struct tree_meta){ .mode = inode->mode, .mtime = { .tv_sec = inode->mtime } };
}

/* Reports a failure. The first one is kept, and then all works end at once. */
void extract_note_failure(struct extract *x, const struct error *err);

/* Pushes work for other threads, or does it in this thread if they have enough. */
void extract_give_work(struct extract *x, struct work *work);

/* For tree_set_settle(). arg: the extract. */
void extract_settle(void *arg, const char *path, size_t n);

/* Makes the record of a file that does not exist yet. NULL: no memory. free() frees it. */
struct extract_file *extract_new_file(const struct sqfs_inode *inode, const char *path);
/* extract_get_place() is called with the lock held. Then any thread makes the file there, and at
 * last sets its time. */
int extract_get_place(struct extract *x, struct extract_file *f, struct error *err);
int extract_make_file(struct extract *x, struct extract_file *f, int *fdp, struct error *err);
int extract_end_file(struct extract *x, struct extract_file *f, int *fdp, struct error *err);

/* Adds a file to the batch *bp (NULL: a new one). The caller that lists a directory gives its batch
 * to other threads at the end. */
int extract_add_to_batch(struct extract *x, struct extract_batch **bp,
			 const struct sqfs_inode *inode, const char *path, struct error *err);
void extract_give_batch(struct extract *x, struct extract_batch **bp);

/* Returns true for files that are made at once: big ones, which several threads write, and those
 * with several names. */
bool extract_goes_at_once(const struct sqfs_inode *inode);
int extract_file_at_once(struct extract *x, const struct sqfs_inode *inode, const char *path,
			 struct error *err);
int extract_symlink(struct extract *x, const struct sqfs_inode *inode, const char *path,
		    struct error *err);
