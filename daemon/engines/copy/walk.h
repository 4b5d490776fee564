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
	struct walk_dir *parent; /* NULL: a root */
	char *path;		 /* relative to the root's place; "" for an unnamed root */
	const char *name;	 /* its last component */
	int fd;
	struct stat st;
	unsigned depth;
	struct walk_kept_dir *kept;
	_Atomic unsigned n_refs; /* the walk's own: see walk_dir_get() */
	void *user;
};

/* Anything that is not a directory. With what an earlier walk kept it is as old as that, and st has
 * only what walk_kept_next() says. */
struct walk_entry {
	const char *name;
	struct stat st;
	const char *data; /* the content of a small file, st_size bytes of it; NULL: not read yet */
	bool followed;	  /* name is a link, and st is what it leads to: */
	int fd;		  /* which is open for reading; lent. -1: it is no file */
};

struct walk_ops {
	/* A name that was found, as a path: false passes it over without a look. NULL: all are
	 * wanted. Not asked of what an earlier walk kept. */
	bool (*wanted)(const char *path, void *arg);
	/* A directory, before what is in it. May be called for several directories at once. */
	int (*enter)(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
	int (*entry)(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
		     struct error *err);
	/* All below is done. Called also after a failure, and then for directories that enter() was
	 * not called for: their user is NULL. */
	void (*leave)(struct walk *w, struct walk_dir *dir, void *arg);
	/* May not be read. 0: continues without it. NULL: skipped. */
	int (*unreadable)(struct walk *w, const char *path, int errnum, void *arg,
			  struct error *err);
	/* Opens what a link leads to, for reading. With walk_set_following(). */
	int (*follow)(struct walk *w, struct walk_dir *dir, const char *name, int *fdp,
		      struct stat *st, void *arg, struct error *err);
	/* Has something mounted on it, is made but not entered. NULL: passed over. */
	int (*mount_point)(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
};

/* Any part may be NULL but ops. filter prunes directories and leaves out entries. */
int walk_new(struct walk **wp, struct stage_io *io, const struct path_filter *filter,
	     const struct walk_ops *ops, void *arg, struct error *err);
void walk_free(struct walk *w);
DEFINE_FREEP(struct walk, walk_free)

/* Before the root "" is added: keep what is seen in it, or use what a walk with the same filter has
 * kept. Lent for the walk's life. */
void walk_set_keeping(struct walk *w, struct walk_kept *kept);
void walk_set_kept(struct walk *w, struct walk_kept *kept);

/* Before a root is added: what a link leads to is found in its place, by the op follow(). What
 * leads to a directory that it is in itself is refused. Nothing is kept of such a walk. */
void walk_set_following(struct walk *w);

/* A root: an open directory (consumed, also on failure), called path in what ops get. */
int walk_add_root(struct walk *w, int fd, const char *path, struct error *err);

/* Walks with n_threads (0: as many as policy says), and more where operations take long. The first
 * failure, -ECANCELED, or 0 (also after walk_stop()). */
int walk_run(struct walk *w, size_t n_threads, struct error *err);
/* How many there are; how many there may be. */
size_t walk_get_threads(struct walk *w);
size_t walk_get_max_threads(const struct walk *w);

/* An operation of an op on the source took us: counts like so many of the walk's own. */
void walk_note_wait(struct walk *w, uint64_t us, unsigned n_units);
/* Is it worth measuring? Always while operations take long, else now and then. Any thread. */
bool walk_should_measure(struct walk *w);

/* Comes to an end soon, without a failure. */
void walk_stop(struct walk *w);
/* The first counts. */
void walk_fail(struct walk *w, const struct error *err);
/* Has it failed, been stopped or cancelled? */
bool walk_is_over(const struct walk *w);

/* Work beside the walk, done before walk_run() returns; dir stays open while a reference is held.
 */
void walk_push(struct walk *w, struct work *work);
struct walk_dir *walk_dir_get(struct walk_dir *dir);
void walk_dir_put(struct walk *w, struct walk_dir *dir);

/* The one that it was found in, or that it is itself. */
const struct walk_dir *walk_root(const struct walk_dir *dir);

/* path of name in dir, into buf; a path that is too long is cut. Returns buf. */
#define WALK_PATH_SIZE 4352
char *walk_path(const struct walk_dir *dir, const char *name, char buf[static WALK_PATH_SIZE]);
