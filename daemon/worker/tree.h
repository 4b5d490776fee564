/*
 * tree: writes a tree of files beneath one directory, whatever the names and the order in which they
 * come: nothing outside is touched, no link is followed, the last of several of one name wins.
 *
 * Directories are made 0700 and get their mode and time at the end. Modes lose setuid, setgid and
 * sticky; owners, ACLs and attributes are nobody's business here. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "common/cleanup.h"

struct ctx;
struct error;
struct tree;

struct tree_meta {
	mode_t mode;
	struct timespec mtime; /* tv_nsec UTIME_NOW: none known */
};

struct tree_counts {
	uint64_t files;      /* and links */
	uint64_t replaced;   /* names that came again */
};

/* root: a directory, empty and ours; its fd stays the caller's. ctx (may be NULL) is charged for what
 * is written. Paths below are relative and normal (member-path.h). */
int tree_new(struct tree **tp, int root, struct ctx *ctx, struct error *err);
void tree_free(struct tree *t);
DEFINE_FREEP(struct tree, tree_free)

int tree_add_dir(struct tree *t, const char *path, const struct tree_meta *meta, struct error *err);
int tree_add_symlink(struct tree *t, const char *path, const char *to, const struct tree_meta *meta,
		     struct error *err);
/* to: a file or link that was added before. */
int tree_add_hardlink(struct tree *t, const char *path, const char *to, struct error *err);

/* A file, made with its final size, so that a tmpfs may use huge pages; size of a sparse one is what
 * it claims and is not charged. The fd is the caller's, who ends with tree_end_file(). */
int tree_add_file(struct tree *t, const char *path, const struct tree_meta *meta, uint64_t size,
		  bool sparse, int *fdp, struct error *err);
int tree_end_file(struct tree *t, int fd, const char *path, const struct tree_meta *meta,
		  struct error *err);

/* Modes and times of the directories, deepest first. The root's own are handed out instead
 * (root_mode 0: none came). */
int tree_finish(struct tree *t, mode_t *root_modep, struct error *err);

void tree_get_counts(const struct tree *t, struct tree_counts *counts);
