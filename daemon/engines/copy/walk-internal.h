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
	struct walk_kept *kept; /* NULL: none is kept or used */
	bool keeping, following;
	atomic_bool over;
	struct copy_concurrency pace;
	atomic_bool slow;    /* more threads than CPUs: they wait */
	atomic_bool suspect; /* one operation took long: each is measured from now on */
	pthread_mutex_t lock;
	struct error error;
};

/* A directory to be read, or to be read on. */
struct dir_work {
	struct work work;
	struct walk_dir *parent; /* referenced; NULL: dir is a root */
	struct walk_dir *dir;	 /* referenced; NULL: to be opened */
	struct walk_kept_dir *kept;
	bool entered, followed; /* followed: name is a link */
	size_t kept_pos;
	char name[];
};

/* Opens it if need be, reads, hands what is in it to ops. Frees it or pushes it again. */
void walk_run_dir(struct work *work, void *arg);

/* fd is consumed. The caller's reference of parent goes over to the new one. NULL: no memory. */
struct walk_dir *walk_dir_new(struct walk_dir *parent, const char *name, int fd);

/* Opens d->dir; NULL after 0: it is left out. The reference of d->parent goes over to d->dir. */
int walk_dir_open(struct walk *w, struct dir_work *d, struct error *err);
/* Hands the directory to ops. 1: there is nothing to read in it. */
int walk_dir_enter(struct walk *w, struct dir_work *d, struct error *err);

/* type: as readdir has it. *datap: the content, if it was read too; the caller's. -errno. */
int walk_look(struct walk *w, struct walk_dir *dir, const char *name, unsigned char type,
	      struct stat *st, char **datap);

uint64_t walk_now_us(void);
int walk_out_of_memory(struct error *err);
int walk_report_unreadable(struct walk *w, const char *path, int errnum, struct error *err);
