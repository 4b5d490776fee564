/*
 * tree: writes a tree of files beneath one directory, with any names in any order. Nothing outside
 * is touched, no link is followed, and the last of several files with one name is kept.
 *
 * Directories are made 0700 and get their mode and time at the end. setuid, setgid and sticky bits
 * are removed; owners, ACLs and attributes are not handled here. Only one thread at a time adds
 * names. Other threads may make files and links at the places that it has got for them. If a place
 * is used several times, the file that is to be kept must be made last.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/util/cleanup.h"

struct stage_io;
struct error;
struct tree;
struct tree_dir;

struct tree_meta {
	mode_t mode;
	struct timespec mtime; /* tv_nsec UTIME_NOW: not known */
};

struct tree_counts {
	uint64_t files;	   /* files and links */
	uint64_t replaced; /* names that were added more than once */
};

/* root: an empty directory that belongs to us; its fd still belongs to the caller. io (may be NULL)
 * is charged for all that is written. All paths below are relative and normal (member-path.h). */
int tree_new(struct tree **tp, int root, struct stage_io *io, struct error *err);
void tree_free(struct tree *t);
DEFINE_FREEP(struct tree, tree_free)

int tree_add_dir(struct tree *t, const char *path, const struct tree_meta *meta, struct error *err);
int tree_add_symlink(struct tree *t, const char *path, const char *to, const struct tree_meta *meta,
		     struct error *err);
/* to: the path of a file or link that was added before. */
int tree_add_hardlink(struct tree *t, const char *path, const char *to, struct error *err);

/*
 * Files, and links that other threads make, need two steps. First, the thread that adds names gets
 * a place. This charges for the file, and holds its directory open until tree_put_place(). Then any
 * thread makes the file or link there, with the same path.
 */
struct tree_place {
	struct tree_dir *dir;
};

/* -EINVAL: of a member whose path is empty. */
int tree_refuse_top(struct error *err);
/* Refuse a link of an archive, which extraction and the index of a mounted archive do with the same
 * sentence: -EINVAL for its own content, -ENOENT or -EISDIR for the target of a hard link. */
int tree_refuse_link_to_nothing(const char *path, struct error *err);
int tree_refuse_link_with_data(const char *path, struct error *err);
int tree_refuse_missing_target(const char *path, const char *to, struct error *err);
int tree_refuse_dir_target(const char *path, const char *to, struct error *err);

int tree_get_file_place(struct tree *t, const char *path, uint64_t size, bool sparse,
			struct tree_place *place, struct error *err);
int tree_get_link_place(struct tree *t, const char *path, struct tree_place *place,
			struct error *err);
void tree_put_place(const struct tree_place *place); /* may be called by any thread */

/* tree_make_file() makes a file with its final size, so that a tmpfs may use huge pages. The size
 * of a sparse file is not charged. The caller owns *fdp until tree_end_file(), which closes it and
 * sets it to -1, also on failure. */
int tree_make_file(struct tree *t, const struct tree_place *place, const char *path,
		   const struct tree_meta *meta, uint64_t size, bool sparse, int *fdp,
		   struct error *err);
int tree_end_file(struct tree *t, int *fdp, const char *path, const struct tree_meta *meta,
		  struct error *err);
int tree_make_symlink(struct tree *t, const struct tree_place *place, const char *path,
		      const char *to, const struct tree_meta *meta, struct error *err);

/* For callers that make files in other threads: the tree calls settle(arg, path, n) before it makes
 * a directory at path[0..n). settle() returns when all work at that path is done; path NULL: all
 * work. */
void tree_set_settle(struct tree *t, void (*settle)(void *arg, const char *path, size_t n),
		     void *arg);

/* Sets the modes and times of the directories, the deepest first. The root's mode is not set but
 * returned in *root_modep (0: not known). */
int tree_finish(struct tree *t, mode_t *root_modep, struct error *err);

void tree_get_counts(const struct tree *t, struct tree_counts *counts);
