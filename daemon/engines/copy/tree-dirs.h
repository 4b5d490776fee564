/*
 * tree-dirs: the directories of a tree that is being written: made, held open, and given their
 * modes and times at the end. Only one thread at a time may call these functions, except
 * tree_dir_unpin().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/engines/copy/tree.h"

struct tree_dir {
	int fd; /* -1: not open */
	/* Private to tree-dirs.c: */
	struct tree_dir *next; /* next in the same bucket */
	uint64_t hash;
	atomic_uint n_pins;
	size_t slot; /* index in the table of open directories */
	bool has_meta;
	struct tree_meta meta;
	char path[];
};

struct tree_dirs;

/* Called before a directory is made, with its path of n bytes (not terminated). Returns when all
 * work that was begun at that path is done. path NULL: all work at all paths. */
typedef void (*tree_settle_fn)(void *arg, const char *path, size_t n);

/* root still belongs to the caller. Returns 0, -ENOMEM, or why no key for the hash is available. */
int tree_dirs_new(struct tree_dirs **tp, int root, struct stage_io *io, struct error *err);
void tree_dirs_free(struct tree_dirs *t);
void tree_dirs_set_settle(struct tree_dirs *t, tree_settle_fn settle, void *arg);

/* Returns true if the table has a directory with that path. The table may have forgotten it. */
bool tree_dirs_has(const struct tree_dirs *t, const char *path);

/* Gets the directory path[0..n) and pins it, so that it stays open until tree_dir_unpin(). n 0: the
 * root. make: makes it if it is missing; otherwise returns -ENOENT without a message. */
int tree_dirs_get(struct tree_dirs *t, const char *path, size_t n, bool make,
		  struct tree_dir **dirp, struct error *err);

/* May be called by any thread. */
static inline void tree_dir_unpin(struct tree_dir *d)
{
	atomic_fetch_sub_explicit(&d->n_pins, 1, memory_order_release);
}

/* Sets the final mode and time of a directory. If this is called several times, the last values are
 * used. */
void tree_dir_set_meta(struct tree_dir *d, const struct tree_meta *meta);

/* Sets the modes and times of all directories, the deepest first. No directory may be pinned. The
 * root only gets its time; *root_modep is its mode, 0: not known. */
int tree_dirs_finish(struct tree_dirs *t, mode_t *root_modep, struct error *err);
