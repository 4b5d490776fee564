/*
 * source: where a dataset's bytes come from, opened as the user and checked again by the site's
 * rule after every symbolic link is resolved.
 *
 * A scheme (schemes/<word>.c) fills it. A file and a directory are open already; the members of a
 * set are opened one by one, each checked the same way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"
#include "common/util/cleanup.h"

struct ctx;
struct error;
struct fetch;
struct fetch_object;
struct hash;
struct stream;
struct target;
struct walk_kept;

struct source_member {
	char *path;	  /* absolute, as expanded */
	const char *name; /* its last component: the name in the staged directory */
};

struct source {
	enum source_kind kind;
	char *path; /* absolute, as the user named it (after expansion) */
	char *real; /* where it really is: all links resolved; NULL for a set */
	char *top;  /* with subdir=: real before it, which the rule was asked about; else NULL */
	int fd;	    /* FILE: O_RDONLY at offset 0; DIR: O_RDONLY|O_DIRECTORY; SET: -1 */
	struct stat st;	    /* of fd, when it was opened */
	struct stat origin; /* FILE: of real, also where fd is of a copy from an earlier time */

	struct source_member *members; /* SET: sorted by bytes, after shard= */
	size_t n_members;
	size_t n_members_all; /* before shard= */

	char **taken; /* DIR with shard=: sorted relative paths of the files that
		       * are this node's, found by probe; NULL: all */
	size_t n_taken;

	struct walk_kept *kept; /* DIR: what probe saw of it, for the copy; NULL: nothing */
	size_t n_readers;	/* how many operations at once helped then; 0: not known */

	bool landed; /* fd is what came by sbcast (broadcast.h), direct_fd the source's */
	int direct_fd;
	blkcnt_t direct_blocks; /* of st, before it landed */

	bool is_remote;		      /* from the web: there is no path to look at or to link to */
	struct fetch *fetch;	      /* who brings its bytes (ctx's); of a FILE src->fd has only
				       * what a probe looks at. NULL: src->fd has all */
	char *called;		      /* remote FILE: the name that the server gives it; or NULL */
	struct fetch_object *objects; /* remote: the FILE, or the members of a SET */
	size_t n_objects;	      /* of a DIR (a prefix of S3) they are all there is */

	char **rules; /* patterns that a resolved path has to fit, ends with NULL */
};

struct scheme {
	const char *name; /* the word in front of the source */
	enum dataset_scheme scheme;
	int (*open)(struct ctx *ctx, struct source *src, struct error *err);
};

extern const struct scheme scheme_file, scheme_http, scheme_s3;

/* Opens the dataset's source by the scheme that knows it. -ENOENT, -EACCES, -EPERM (outside of
 * what the rule allows), each with the sentence. */
int source_open(struct ctx *ctx, struct source **srcp, struct error *err);
void source_close(struct source *src);
DEFINE_FREEP(struct source, source_close)

/* Opens member i of a set: a regular file or a directory, checked by the rule. The fd is the
 * caller's. */
int source_open_member(const struct source *src, size_t i, int *fdp, struct stat *st,
		       struct error *err);

/* r is what opening path has returned: for -ENOENT of a link, err gets where it leads. Returns
 * r. */
int source_refuse_missing(const char *path, int r, struct error *err);

/*
 * For schemes: opens path as the user, links followed, and holds what it really is against the
 * rules. Regular files and directories alone; never waits for a FIFO or wakes a device. realp may
 * be NULL.
 */
int source_open_path(const struct source *src, const char *path, int *fdp, struct stat *st,
		     char **realp, struct error *err);

/*
 * The same for a symbolic link in an open directory, called path. What is in the source itself may
 * be linked to also where the rule covers the directory as a whole, and nothing in it by itself.
 * root: the directory that the walk began with, which is the member where the source is a set.
 * -ENOENT: it leads to nothing; -ELOOP: to itself, or to a directory that the source is in. When it
 * fails and what it leads to is there, st is of that.
 */
int source_open_link(const struct source *src, int root, int dirfd, const char *name,
		     const char *path, int *fdp, struct stat *st, struct error *err);

/* With taken: is path among them? */
bool source_takes(const struct source *src, const char *path);

/* Is the file still what it was when it was opened (size, mtime, and the path still names it)?
 * 0, or -ESTALE "changed while it was read". */
int source_check_unchanged(const struct source *src, struct error *err);

/* The bytes of a FILE from its beginning, wherever they come from; counted and hashed as stream.h
 * says. */
int source_open_stream(struct ctx *ctx, const struct source *src, struct hash *hash,
		       struct stream **sp, struct error *err);

/* With fetch: all of a FILE into fd, charged, its sum checked where verify= asks for it. */
int source_fetch(struct ctx *ctx, const struct source *src, int fd, struct error *err);

/* For what has to be read here and there: a FILE that is fetched is stored beside target first,
 * without a name, and src->fd is that from then on. Others are left alone. */
int source_spool(struct ctx *ctx, struct source *src, const struct target *target,
		 struct error *err);
