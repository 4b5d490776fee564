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
	bool lazy; /* directories come with what is in them */
	_Atomic uint64_t files;
	pthread_key_t buffer; /* of each thread, for small files */
	atomic_bool doomed;   /* something can't be read: nothing more is copied */
	pthread_mutex_t lock; /* what is below; making of lazy directories */
	uint64_t n_special, n_mounts, n_links_out, n_unreadable;
	char first_special[512], first_mount[512], first_link_out[512], unreadable[800];
	uint64_t doomed_ms; /* when the first unreadable thing was found */
};

/* ---- copy-report.c: what is left out, what can't be read ---- */

void copy_count_special(struct copy *c, const char *path);
/* A link that is kept, and leads out of the dataset. */
void copy_count_link_out(struct copy *c, const char *path, const char *to);
/* Ops of a walk. */
int copy_mount_point(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
int copy_unreadable(struct walk *w, const char *path, int errnum, void *arg, struct error *err);
/* Was there something unreadable? Ends the walk when enough of it is known. */
bool copy_is_doomed(struct copy *c);
/* The failure, or warnings of what was left out. */
int copy_report(struct copy *c, struct error *err);

/* ---- copy-dir.c: directories ---- */

/* Ops of a walk. */
int copy_enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err);
void copy_leave(struct walk *w, struct walk_dir *dir, void *arg);
/* The staged directory, made if need be with those above. Lent. NULL: of a set, the top. */
int copy_get_dir(struct copy *c, struct walk_dir *dir, int *fdp, struct error *err);

/* ---- copy-recheck.c: directories that others write to ---- */

/* All of dir is copied, to staged (-1: nothing of it). -ESTALE: what was in it meanwhile isn't all.
 */
int copy_recheck(struct copy *c, struct walk_dir *dir, int staged, struct error *err);

/* ---- copy-entry.c: links and files ---- */

/* Ops of a walk. */
int copy_entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
	       struct error *err);
int copy_follow(struct walk *w, struct walk_dir *dir, const char *name, int *fdp, struct stat *st,
		void *arg, struct error *err);
/* Consumes fd, which is open for reading. dir NULL: of a set. */
int copy_opened(struct copy *c, struct walk_dir *dir, const char *name, int fd,
		const struct stat *st, struct error *err);
