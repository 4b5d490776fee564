/*
 * pack: many small files into few big ones: a squashfs image, or tar shards.
 *
 * Results are written under a temporary name and renamed when they are complete, so OUT is always
 * complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct error;
struct progress;
struct tar_writer;

struct pack {
	const char *dir;     /* absolute, resolved */
	const char *out;     /* as the user wrote it; of an image, without links */
	uint64_t shard_size; /* 0: a squashfs image */
	bool follow;	     /* links=follow: links are packed as what they lead to */
	struct progress *progress;
	bool locked; /* this process has a lock on OUT, so no other one uses "OUT.tmp" */
};

/* Make the image or the shards. After a failure, they leave no files. SIGINT and SIGTERM end
 * them with -EINTR. */
int pack_squashfs(const struct pack *p, struct error *err);
int pack_shards(const struct pack *p, struct error *err);

/* Returns whether shards of that name exist. Looks for the first shard only, because it is renamed
 * last. */
bool pack_shards_exist(const char *out);

/* ---- links of a directory that lead out of it ---- */

struct pack_links {
	uint64_t n;
	char first[1024]; /* the first such link and its target */
};

/* Counts the links. Skips directories that cannot be read. dir: absolute, resolved. */
void pack_links_count(struct pack_links *links, const char *dir);

/* ---- the files of a directory, for shards ---- */

struct pack_file {
	char *path;   /* relative to the directory */
	size_t n_key; /* length of the key, the part of path up to the first dot of the last
		       * component */
	uint64_t size;
	struct timespec mtime;
	unsigned mode;
	bool is_dir;
};

#define PACK_MAX_DEPTH 256

struct pack_place {
	dev_t dev;
	ino_t ino;
};

struct pack_list {
	struct pack_file *files;
	size_t n_files, n_allocated;
	uint64_t size;	    /* sum of all sizes */
	uint64_t n_skipped; /* special files, and links that are not followed */
	bool follow;	    /* links=follow; dangling links are an error */
	bool with_dirs;	    /* directories are entries, too */
	const char *out;    /* with follow: a result whose directory is refused; NULL: none */
	uint64_t n_followed;
	/* private: the directories above an entry, and that of the result */
	struct pack_place above[PACK_MAX_DEPTH + 2], out_dir;
};

/* Set follow, with_dirs and out first. Walks dirfd, which stays the caller's, and sorts by key,
 * then by name. Links to files count as files. */
int pack_list_read(struct pack_list *l, int dirfd, struct error *err);
void pack_list_deinit(struct pack_list *l);
/* Prints how many links were followed, and how many entries were left out. */
void pack_list_tell(const struct pack_list *l);

/* Writes an entry to a tar. buffer: of PACK_BUFFER bytes. step (may be NULL) is called after each
 * read; if it returns false, the result is -EINTR. -ESTALE: the file has changed since it was
 * listed. */
#define PACK_BUFFER (1024 * 1024)
int pack_list_put(const struct pack_file *f, struct tar_writer *w, int dirfd, char *buffer,
		  bool (*step)(void *arg, size_t n), void *arg, struct error *err);

/* ---- a tar of a directory without links, for mksquashfs ---- */

struct pack_feed {
	int fd;		     /* where the tar is read; -1: closed */
	pid_t pid;	     /* the process that writes it */
	struct error *error; /* shared with that process */
};

/* Starts a process that writes the tar. Prints how many links are followed. */
int pack_feed_start(struct pack_feed *feed, const struct pack *p, struct error *err);
/* Waits for the end of the process. Returns 0 if it has written all, or its error. err may be NULL.
 * Must also be called if pack_feed_start() has failed. */
int pack_feed_end(struct pack_feed *feed, struct error *err);

/* Returns the number of files from index i on that have the same key. */
size_t pack_list_get_group(const struct pack_list *l, size_t i);
