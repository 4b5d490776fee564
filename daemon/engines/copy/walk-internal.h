/* What the files walk*.c share: a walk and the work in it. */
#pragma once

#include <pthread.h>

#include "common/util/error.h"
#include "daemon/engines/copy/copy-concurrency.h"
#include "daemon/engines/copy/walk.h"

#define WALK_SLOW_US 150 /* an operation that takes longer waits for a server */

struct walk {
	struct stage_io *io;
	const struct path_filter *filter;
	const struct walk_ops *ops;
	void *arg;
	struct workq *q;
	struct walk_kept *kept; /* NULL: no entries are kept or used */
	bool keeping, following;
	atomic_bool over;
	struct copy_concurrency pace;
	atomic_bool slow;    /* operations are slow: there may be more threads than CPUs, because
			      * they wait */
	atomic_bool suspect; /* one operation was slow: each one is measured from now on */
	pthread_mutex_t lock;
	struct error error;
};

/* A directory whose reading begins or continues. */
struct dir_work {
	struct work work;
	struct walk_dir *parent; /* holds a reference; NULL: dir is a root */
	struct walk_dir *dir;	 /* holds a reference; NULL: not opened yet */
	struct walk_kept_dir *kept;
	bool entered, followed; /* followed: name is a link to it */
	size_t kept_pos;
	char name[];
};

/* Opens the directory if it is not open, reads it, and calls ops for its entries. Frees the work or
 * pushes it again. */
void walk_run_dir(struct work *work, void *arg);

/* Consumes fd, and takes the caller's reference of parent. NULL: no memory. */
struct walk_dir *walk_dir_new(struct walk_dir *parent, const char *name, int fd);

/* Opens d->dir, which takes the reference of d->parent. Returns 0 or -errno; d->dir NULL after 0:
 * the directory is left out. */
int walk_dir_open(struct walk *w, struct dir_work *d, struct error *err);
/* Calls ops for the directory. Returns 1 if no entries in it need to be read. */
int walk_dir_enter(struct walk *w, struct dir_work *d, struct error *err);

/* Examines an entry. type: from readdir(). *datap: the content, if it was read, too; it belongs to
 * the caller. Returns 0 or -errno. */
int walk_look(struct walk *w, struct walk_dir *dir, const char *name, unsigned char type,
	      struct stat *st, char **datap);

int walk_out_of_memory(struct error *err);
int walk_report_unreadable(struct walk *w, const char *path, int errnum, struct error *err);
