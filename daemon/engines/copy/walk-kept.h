/*
 * walk-kept: keeps the entries that a walk through a tree has seen, in bounded memory, so that the
 * next walk need not ask the file system again. A directory is kept completely or not at all. The
 * threads of one walk fill it, and those of another walk read it when the first walk is over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/util/cleanup.h"

#define WALK_KEPT_MAX (16 << 20)
/* For content of small files, in addition. */
#define WALK_KEPT_MAX_DATA (12 << 20)
#define WALK_KEPT_SMALL (32 << 10)

struct walk_entry;
struct walk_kept;
struct walk_kept_dir;

int walk_kept_new(struct walk_kept **kp, size_t max_size);
void walk_kept_free(struct walk_kept *k);
DEFINE_FREEP(struct walk_kept, walk_kept_free)

struct walk_kept_dir *walk_kept_get_root(struct walk_kept *k);

/* Add an entry of d as it was examined (d NULL: nothing is kept). walk_kept_add_dir() returns the
 * new directory, which lives as long as k, or NULL if there is no room. */
struct walk_kept_dir *walk_kept_add_dir(struct walk_kept_dir *d, const char *name);
/* data: the content of the file, which is consumed; NULL: none. */
void walk_kept_add_entry(struct walk_kept_dir *d, const char *name, const struct stat *st,
			 char *data);
/* Returns true if the next file is probably small, and its content has room. */
bool walk_kept_wants_data(struct walk_kept_dir *d);

/* Returns the number of entries without content, which the next walk must read. UINT64_MAX: not
 * known. Called after the walk. */
uint64_t walk_kept_get_unread(const struct walk_kept *k);

/* walk_kept_begin() is called before d is read, walk_kept_complete() when all its entries were
 * added. */
void walk_kept_begin(struct walk_kept_dir *d, const struct stat *st);
void walk_kept_complete(struct walk_kept_dir *d);

/* Keeps nothing of d, because not all its entries could be examined. */
void walk_kept_give_up(struct walk_kept_dir *d);

/* Returns true if d is complete and the directory has not changed since. Returns false if d is
 * NULL. */
bool walk_kept_is_good(const struct walk_kept_dir *d, const struct stat *now);

/* Gets the entry at *posp (0: the first) and advances *posp. Returns false if there is none. Sets
 * in e->st: type and mode, size, mtime; st_nlink and st_blocks only as far as a copy needs them
 * (whether it has several links or holes). For a directory (S_IFDIR), sets only *childp, which may
 * be NULL. Pointers in e are lent. */
bool walk_kept_next(const struct walk_kept_dir *d, size_t *posp, struct walk_entry *e,
		    struct walk_kept_dir **childp);
