/*
 * tree-dirs: the directories of a tree that is being written: made, held open, and given their
 * modes and times at the end. One thread at a time, but for tree_dir_unpin().
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/engines/copy/tree.h"

struct tree_dir {
	int fd; /* -1: not open now */
	/* tree-dirs.c's */
	struct tree_dir *next; /* in its bucket */
	uint64_t hash;
	atomic_uint n_pins;
	size_t slot; /* among those that are open */
	bool has_meta;
	struct tree_meta meta;
	char path[];
};

struct tree_dirs;

/* Called before a directory is made, with its path of n bytes (not terminated): everything that was
 * begun at that path has to be done when it returns. NULL: everything everywhere. */
typedef void (*tree_settle_fn)(void *arg, const char *path, size_t n);

/* root stays the caller's. -ENOMEM, or why there is no key for its hash. */
int tree_dirs_new(struct tree_dirs **tp, int root, struct stage_io *io, struct error *err);
void tree_dirs_free(struct tree_dirs *t);
void tree_dirs_set_settle(struct tree_dirs *t, tree_settle_fn settle, void *arg);

/* Is there a directory of that path, as far as is remembered? */
bool tree_dirs_has(const struct tree_dirs *t, const char *path);

/* The directory path[0..n), pinned: it stays, and stays open, until tree_dir_unpin(). n 0: the
 * root. make: also one that is not there yet; without, -ENOENT without a text. */
int tree_dirs_get(struct tree_dirs *t, const char *path, size_t n, bool make,
		  struct tree_dir **dirp, struct error *err);

/* From any thread. */
static inline void tree_dir_unpin(struct tree_dir *d)
{
	atomic_fetch_sub_explicit(&d->n_pins, 1, memory_order_release);
}

/* What is said about a directory; the last word counts. */
void tree_dir_set_meta(struct tree_dir *d, const struct tree_meta *meta);

/* Modes and times, deepest first; nothing may be pinned. Of the root the time; *root_modep is its
 * mode, 0: none came. */
int tree_dirs_finish(struct tree_dirs *t, mode_t *root_modep, struct error *err);
