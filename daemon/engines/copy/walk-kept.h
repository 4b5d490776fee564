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
/* Content of small files, beside that. */
#define WALK_KEPT_MAX_DATA (12 << 20)
#define WALK_KEPT_SMALL (32 << 10)

struct walk_entry;
struct walk_kept;
struct walk_kept_dir;

int walk_kept_new(struct walk_kept **kp, size_t max_size);
void walk_kept_free(struct walk_kept *k);
DEFINE_FREEP(struct walk_kept, walk_kept_free)

struct walk_kept_dir *walk_kept_get_root(struct walk_kept *k);

/* What is in d (NULL: nothing is kept of it), as it was looked at. The child is NULL where there is
 * no room any more; it lives as long as k. */
struct walk_kept_dir *walk_kept_add_dir(struct walk_kept_dir *d, const char *name);
/* data (NULL: none) is consumed: the content of the file. */
void walk_kept_add_entry(struct walk_kept_dir *d, const char *name, const struct stat *st,
			 char *data);
/* Is it likely that the next file is small, and is there room for what is in it? */
bool walk_kept_wants_data(struct walk_kept_dir *d);

/* How many entries the next walk has to ask for: those without content. UINT64_MAX: not known. When
 * the walk is over. */
uint64_t walk_kept_get_unread(const struct walk_kept *k);

/* d is about to be read; all that is in it was added. */
void walk_kept_begin(struct walk_kept_dir *d, const struct stat *st);
void walk_kept_complete(struct walk_kept_dir *d);

/* Not all of it could be looked at. */
void walk_kept_give_up(struct walk_kept_dir *d);

/* Is it whole, and is the directory still what it was? false for NULL. */
bool walk_kept_is_good(const struct walk_kept_dir *d, const struct stat *now);

/* The entry at *posp (0: the first), which goes on to the next; false: none left. Of e->st are set
 * the type and mode, size, mtime, and st_nlink and st_blocks as far as they matter to a copy: is it
 * one of several links, has it holes? Of a directory (S_IFDIR) only *childp is set, which may be
 * NULL. What e points to is lent. */
bool walk_kept_next(const struct walk_kept_dir *d, size_t *posp, struct walk_entry *e,
		    struct walk_kept_dir **childp);
