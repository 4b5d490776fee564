/* The parts of copy-engine together: one copy and what its threads share. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "common/util/error.h"
#include "daemon/engines/copy/copy-engine.h"
#include "daemon/engines/copy/walk.h"

struct stage_io;
struct path_filter;
struct link_table;

struct copy {
	struct stage_io *io;
	const struct copy_source *src;
	int root;
	struct stat root_st;
	struct timespec began;
	struct walk *walk;
	struct path_filter *filter;
	struct link_table *links;
	bool lazy; /* directories are made when the first entry in them is copied */
	_Atomic uint64_t files;
	pthread_key_t buffer; /* a buffer for each thread, for small files */
	atomic_bool doomed;   /* something cannot be read: nothing more is copied */
	pthread_mutex_t lock; /* for the fields below, and for making lazy directories */
	uint64_t n_special, n_mounts, n_links_out, n_unreadable;
	char first_special[512], first_mount[512], first_link_out[512], unreadable[800];
	uint64_t doomed_ms; /* when the first unreadable entry was found */
};

/* ---- copy-report.c: what is left out, what can't be read ---- */

void copy_count_special(struct copy *c, const char *path);
/* Counts a link that is copied as a link and leads out of the dataset. */
void copy_count_link_out(struct copy *c, const char *path, const char *to);
/* Ops of a walk. */
int copy_mount_point(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
int copy_unreadable(struct walk *w, const char *path, int errnum, void *arg, struct error *err);
/* Returns true if something could not be read. Stops the walk when enough unreadable entries are
 * known. */
bool copy_is_doomed(struct copy *c);
/* Returns the failure if something could not be read. Otherwise prints warnings about entries that
 * were left out. */
int copy_report(struct copy *c, struct error *err);

/* ---- copy-dir.c: directories ---- */

/* Ops of a walk. */
int copy_enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
void copy_leave(struct walk *w, struct walk_dir *dir, void *arg);
/* Gets the directory in the copy, and makes it and its parents if they are missing. *fdp is lent.
 * dir NULL: the top directory, for members of a set. */
int copy_get_dir(struct copy *c, struct walk_dir *dir, int *fdp, struct error *err);

/* ---- copy-recheck.c: directories that others write to ---- */

/* Compares the names in dir with those of its copy staged (-1: none was made), after all of dir was
 * copied. Returns 0 or -errno. -ESTALE: names came or went away in between. */
int copy_recheck(struct copy *c, struct walk_dir *dir, int staged, struct error *err);

/* ---- copy-entry.c: links and files ---- */

/* Ops of a walk. */
int copy_entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
	       struct error *err);
int copy_follow(struct walk *w, struct walk_dir *dir, const char *name, int *fdp, struct stat *st,
		void *arg, struct error *err);
/* Copies an open file. Consumes fd. dir NULL: a member of a set. */
int copy_opened(struct copy *c, struct walk_dir *dir, const char *name, int fd,
		const struct stat *st, struct error *err);
