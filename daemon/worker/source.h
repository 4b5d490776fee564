/*
 * source: the place from which the bytes of a dataset are read. It is opened as the user. After
 * all symbolic links are resolved, it is checked against the site's rule again.
 *
 * A scheme (schemes/<word>.c) fills the struct. A file or directory is already open. The members
 * of a set are opened one by one, and each is checked in the same way.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/dataset/dataset.h"
#include "common/dataset/facts.h"
#include "common/util/cleanup.h"
#include "daemon/engines/copy/open-allowed.h"

struct ctx;
struct error;
struct fetch;
struct fetch_object;
struct hash;
struct stream;
struct target;
struct walk_kept;

struct source_member {
	char *path;	  /* absolute, after expansion */
	const char *name; /* its last component, which is its name in the staged directory */
};

struct source {
	enum source_kind kind;
	char *path;	/* absolute path that the user named, after expansion */
	char *real;	/* the path with all links resolved; NULL for a set */
	char *top;	/* with subdir=: `real` without it, which was checked against the rule; else
			 * NULL */
	int fd;		/* FILE: O_RDONLY at offset 0; DIR: O_RDONLY|O_DIRECTORY; SET: -1 */
	struct stat st; /* state of fd when it was opened */
	struct stat origin; /* FILE: state of `real`, even if fd is a copy from an earlier time */

	struct source_member *members; /* SET: sorted by bytes, after shard= was applied */
	size_t n_members;
	size_t n_members_all; /* number before shard= was applied */

	char **taken; /* DIR with shard=: sorted relative paths of this node's files, set by
		       * probe; NULL: all files */
	size_t n_taken;

	struct walk_kept *kept; /* DIR: what probe has seen, for the copy; NULL: nothing */
	size_t n_readers;	/* number of parallel operations that helped probe; 0: not known */

	bool landed; /* fd is the file that sbcast delivered (broadcast.h); direct_fd is the
		      * source */
	int direct_fd;
	blkcnt_t direct_blocks; /* st.st_blocks before that */

	bool is_remote;		      /* from the web: there is no path to examine or to link to */
	struct fetch *fetch;	      /* fetches the bytes (lent by ctx); for a FILE, src->fd has
				       * only the parts that probe reads. NULL: src->fd has all
				       * bytes */
	char *called;		      /* remote FILE: the name that the server sent, or NULL */
	struct fetch_object *objects; /* remote: the FILE, or the members of a SET */
	size_t n_objects;	      /* for a DIR (a prefix of S3): all objects below it */

	char **rules; /* patterns for resolved paths; NULL ends the list */
};

struct scheme {
	const char *name; /* the word before the source */
	enum dataset_scheme scheme;
	int (*open)(struct ctx *ctx, struct source *src, struct error *err);
};

extern const struct scheme scheme_file, scheme_http, scheme_s3;

/* Opens the dataset's source with the scheme for it. Returns 0 or an error with err set; -ENOENT,
 * -EACCES, -EPERM (the rule does not cover it). */
int source_open(struct ctx *ctx, struct source **srcp, struct error *err);
void source_close(struct source *src);
DEFINE_FREEP(struct source, source_close)

/* Checks that no two members of a set have one name, because all go into one directory. */
int source_check_names(const struct source *src, struct error *err);

/* Returns the rules of the source, for allowed_open_link(). */
struct allowed source_get_allowed(const struct source *src);

/* Returns whether path is one of this node's files (`taken`); true if taken is NULL. */
bool source_takes(const struct source *src, const char *path);

/* Checks that the file has the same size and mtime as when it was opened, and that the path still
 * names it. Returns 0, or -ESTALE with "changed while it was read". */
int source_check_unchanged(const struct source *src, struct error *err);

/* Opens a stream of all bytes of a FILE, whether they are local or fetched. stream.h describes how
 * they are counted and hashed. */
int source_open_stream(struct ctx *ctx, const struct source *src, struct hash *hash,
		       struct stream **sp, struct error *err);

/* Fetches all bytes of a FILE to fd, charges them, and checks the checksum of verify=. Needs
 * src->fetch. */
int source_fetch(struct ctx *ctx, const struct source *src, int fd, struct error *err);

/* Stores a FILE that is fetched beside target, in a file without a name, for methods that do not
 * read it sequentially. src->fd is that file from then on. Does nothing for other sources. */
int source_spool(struct ctx *ctx, struct source *src, const struct target *target,
		 struct error *err);
