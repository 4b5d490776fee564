/*
 * copy-engine: directories and sets of files, as `cp -a` would copy them, less setuid, in parallel.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stage_io;
struct error;
struct stat;
struct walk_kept;

/* Member i of a set, lent. */
struct copy_member {
	const char *path; /* absolute */
	const char *name; /* in the copy */
};

struct copy_source_ops {
	struct copy_member (*get_member)(const void *arg, size_t i);
	/* A regular file or a directory. The fd is the caller's. -EACCES: it may not be read. */
	int (*open_member)(const void *arg, size_t i, int *fdp, struct stat *st, struct error *err);
	/* What a symbolic link in an open directory leads to, if it may be read; path: the link's.
	 * root: the directory that the walk began with. -ENOENT: it leads to nothing; -ELOOP: to
	 * itself, or to a directory that the source is in. */
	int (*open_link)(const void *arg, int root, int dirfd, const char *name, const char *path,
			 int *fdp, struct stat *st, struct error *err);
	/* With is_part: is the file among those that are copied? */
	bool (*takes)(const void *arg, const char *path);
};

/* What is copied: an open directory, or a set of members. Any thread asks. */
struct copy_source {
	const struct copy_source_ops *ops;
	const void *arg;
	const char *path;
	int fd; /* of a directory; -1: a set */
	size_t n_members;
	bool is_part;
	struct walk_kept *kept; /* what a walk before saw of it; NULL: nothing */
	size_t n_readers;	/* how many operations at once helped then; 0: not known */
};

struct copy_result {
	uint64_t files; /* everything but directories */
};

/*
 * Copies src into the open, empty directory root. By the dataset's include=
 * and exclude=. Sockets, FIFOs, devices and what is mounted inside are left out with a warning;
 * what can't be read fails it, naming the first ten.
 */
int copy_tree(struct stage_io *io, const struct copy_source *src, int root,
	      struct copy_result *result, struct error *err);
