/*
 * walk: goes through a tree with several threads, so that the latency of a slow file system's
 * metadata is paid in parallel. Used to count and to copy.
 *
 * Links are not followed, unless ops say how, and mount points not crossed. A directory's fd stays
 * open as long as something beneath it is not done; WALK_MAX_DEPTH bounds that. Entries are
 * processed before more are read, so a directory is never held completely in memory.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "daemon/engines/copy/workq.h"

struct stage_io;
struct error;
struct path_filter;
struct walk;
struct walk_kept;
struct walk_kept_dir;

#define WALK_MAX_DEPTH 256

struct walk_dir {
	struct walk_dir *parent; /* NULL: this is a root */
	char *path;		 /* relative to the parent of the root; "" for an unnamed root */
	const char *name;	 /* last component of path */
	int fd;
	struct stat st;
	unsigned depth;
	struct walk_kept_dir *kept;
	_Atomic unsigned n_refs; /* private; see walk_dir_get() */
	void *user;
};

/* An entry that is not a directory. If it comes from an earlier walk, it is as old as that walk,
 * and st has only the fields that walk_kept_next() sets. */
struct walk_entry {
	const char *name;
	struct stat st;
	const char *data; /* content of a small file, st_size bytes; NULL: not read yet */
	bool followed;	  /* name is a link, and st and fd are those of its target */
	int fd;		  /* open for reading; lent; -1: the target is no file */
};

struct walk_ops {
	/* Returns false to leave out a name, given as a path, before it is examined. NULL: all
	 * names are wanted. Not called for entries from an earlier walk. */
	bool (*wanted)(const char *path, void *arg);
	/* Called for a directory before its entries. May be called for several directories at
	 * once. */
	int (*enter)(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
	int (*entry)(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
		     struct error *err);
	/* Called when all entries below are done, also after a failure. After a failure, it is also
	 * called for directories for which enter() was not called; their user is NULL. */
	void (*leave)(struct walk *w, struct walk_dir *dir, void *arg);
	/* Called for an entry that cannot be read. Returns 0 to continue without it. NULL: it is
	 * skipped. */
	int (*unreadable)(struct walk *w, const char *path, int errnum, void *arg,
			  struct error *err);
	/* Opens the target of a link for reading. Required for walk_set_following(). */
	int (*follow)(struct walk *w, struct walk_dir *dir, const char *name, int *fdp,
		      struct stat *st, void *arg, struct error *err);
	/* Called for a mount point, which is not entered. NULL: it is left out. */
	int (*mount_point)(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
};

/* Functions of ops may be NULL. filter prunes directories and leaves out entries. */
int walk_new(struct walk **wp, struct stage_io *io, const struct path_filter *filter,
	     const struct walk_ops *ops, void *arg, struct error *err);
void walk_free(struct walk *w);
DEFINE_FREEP(struct walk, walk_free)

/* Called before the root "" is added. walk_set_keeping() keeps the entries of this walk;
 * walk_set_kept() uses those of an earlier walk with the same filter. kept must live as long as
 * w. */
void walk_set_keeping(struct walk *w, struct walk_kept *kept);
void walk_set_kept(struct walk *w, struct walk_kept *kept);

/* Called before a root is added. The op follow() opens the target of each link, and the walk uses
 * it instead of the link. A link to a directory that contains it is an error. Such a walk keeps no
 * entries. */
void walk_set_following(struct walk *w);

/* Adds a root: an open directory, which is consumed, also on failure. path: its name in calls of
 * ops. */
int walk_add_root(struct walk *w, int fd, const char *path, struct error *err);

/* Walks with n_threads (0: the default), and with more if operations take long. Returns the first
 * failure, -ECANCELED, or 0 (also after walk_stop()). */
int walk_run(struct walk *w, size_t n_threads, struct error *err);
/* Return the present and the maximum number of threads. */
size_t walk_get_threads(struct walk *w);
size_t walk_get_max_threads(const struct walk *w);

/* Records that ops waited us microseconds for the source. This counts as n_units operations of the
 * walk itself. */
void walk_note_wait(struct walk *w, uint64_t us, unsigned n_units);
/* Returns true if the next operation should be measured: always while operations are slow,
 * otherwise now and then. May be called by any thread. */
bool walk_should_measure(struct walk *w);

/* Ends the walk soon, without a failure. */
void walk_stop(struct walk *w);
/* Ends the walk with a failure. The first failure is reported. */
void walk_fail(struct walk *w, const struct error *err);
/* Returns true if the walk has failed or was stopped or cancelled. */
bool walk_is_over(const struct walk *w);

/* Adds work that is done before walk_run() returns. A directory stays open while a reference to it
 * is held. */
void walk_push(struct walk *w, struct work *work);
struct walk_dir *walk_dir_get(struct walk_dir *dir);
void walk_dir_put(struct walk *w, struct walk_dir *dir);

/* Returns the root that contains dir, which may be dir itself. */
const struct walk_dir *walk_root(const struct walk_dir *dir);

/* Writes the path of name in dir to buf; a path that is too long is cut. Returns buf. */
#define WALK_PATH_SIZE 4352
char *walk_path(const struct walk_dir *dir, const char *name, char buf[static WALK_PATH_SIZE]);
