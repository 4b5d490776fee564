/*
 * copy-engine: directories and sets of files, as `cp -a` would copy them, but without set-id bits,
 * with several threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stage_io;
struct error;
struct stat;
struct walk_kept;

/* Member i of a set. Its texts are lent. */
struct copy_member {
	const char *path; /* absolute */
	const char *name; /* name in the copy */
};

struct copy_source_ops {
	struct copy_member (*get_member)(const void *arg, size_t i);
	/* Opens a member, which is a regular file or a directory. The caller owns the fd. -EACCES:
	 * it may not be read. */
	int (*open_member)(const void *arg, size_t i, int *fdp, struct stat *st, struct error *err);
	/* Opens the target of a symbolic link in an open directory, if it may be read. path: path
	 * of the link; root: the directory in which the walk began. -ENOENT: the target does not
	 * exist; -ELOOP: the link leads to itself, or to a directory that contains the source. */
	int (*open_link)(const void *arg, int root, int dirfd, const char *name, const char *path,
			 int *fdp, struct stat *st, struct error *err);
	/* Only if is_part: returns true if the file is copied. */
	bool (*takes)(const void *arg, const char *path);
};

/* The source of a copy: an open directory, or a set of members. Its functions are called by any
 * thread. */
struct copy_source {
	const struct copy_source_ops *ops;
	const void *arg;
	const char *path;
	int fd; /* the directory; -1: the source is a set */
	size_t n_members;
	bool is_part;
	struct walk_kept *kept; /* entries that an earlier walk has seen; NULL: none */
	size_t n_readers;	/* useful number of concurrent operations in that walk; 0: not
				 * known */
};

struct copy_result {
	uint64_t files; /* all entries except directories */
};

/*
 * Copies src into the open, empty directory root. Uses the dataset's include= and exclude=.
 * Sockets, FIFOs, devices and mounts inside the source are left out with a warning. Fails if
 * something cannot be read; the message names the first ten.
 */
int copy_tree(struct stage_io *io, const struct copy_source *src, int root,
	      struct copy_result *result, struct error *err);
