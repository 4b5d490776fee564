/*
 * record: a file with one line for each file, directory and link of a copy. The journal grows
 * while the copy is made, and tells the next mover what is already there. The manifest belongs to
 * a complete copy.
 *
 *   stage-data-copy 2 SUM          first line of a manifest; SUM: the name of the checksum
 *   s KIND SOURCE                  second line: file or dir, and the path of the source
 *   d SECONDS.NANOSECONDS MODE PATH
 *                                  directory, with the source's time of its content; MODE: the
 *                                  source's permissions, as an octal number
 *   f SIZE SECONDS.NANOSECONDS MODE SUMS PATH
 *                                  file; SUMS: a checksum of each RECORD_PIECE bytes,
 *                                  separated by commas
 *   h SIZE SECONDS.NANOSECONDS MODE PATH
 *                                  another name (hard link) of a file that has its own line
 *   l SECONDS.NANOSECONDS PATH     symbolic link
 *   p SIZE SECONDS.NANOSECONDS INDEX SUM PATH
 *                                  one piece of a file; in the journal only
 *   e LINES                        last line of a manifest: the number of lines before it
 *
 * Paths are relative to the top of the copy, which is ".". Blanks, control bytes and "%" are
 * written as %XX.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/util/cleanup.h"
#include "common/util/siphash.h"
#include "daemon/mover/sum.h"

struct error;

#define RECORD_PIECE (16ULL << 20) /* the same as in copy-ranges.h */

#define RECORD_MODE 0777 /* permissions that are copied */

struct record_sum {
	char text[SUM_TEXT_SIZE]; /* "": not known */
};

struct record_entry {
	struct record_entry *next;  /* next entry in the same bucket */
	struct record_entry *below; /* entry of the line before, for loops over all entries */
	char type;		    /* d, f, h, l, or p: a file with some pieces unknown */
	uint64_t size;
	int64_t seconds;
	uint32_t nanoseconds;
	mode_t mode; /* permissions of the source; 0 for links and pieces */
	struct record_sum *sums;
	size_t n_sums;
	char path[];
};

struct record_table {
	struct record_entry **buckets;
	size_t n_buckets, n_entries;
	struct siphash_key key;	   /* key of the hash of paths, because other users may choose
				    * them */
	struct record_entry *last; /* entry of the last line; `below` leads to the others; NULL:
				    * none */
	char *source, kind[8];	   /* source and kind of a manifest; NULL and "" if it has none */
	bool whole;		   /* the first line, the last line and all between were read */
};

void record_table_free(struct record_table *t);
DEFINE_FREEP(struct record_table, record_table_free)

/* Reads the file `name` in dirfd. If it does not exist, the table is empty. A malformed line is
 * left out, and then the table is not whole. max_lines: a file with more lines is refused (-E2BIG);
 * 0: no limit. Returns 0 or an error with err set. */
int record_load(struct record_table **tp, int dirfd, const char *name, size_t max_lines,
		struct error *err);

/* Returns the latest entry of a path, or NULL if there is none. Lent. */
const struct record_entry *record_find(const struct record_table *t, const char *path);

/* Returns whether the entry has the size and mtime of st. */
bool record_entry_is(const struct record_entry *e, const struct stat *st);

/* Returns whether the source, which has st, has the permissions that it had when it was copied. A
 * copy is not compared: not all file systems keep each permission. */
bool record_entry_has_mode(const struct record_entry *e, const struct stat *st);

struct record_progress {
	uint64_t bytes, files; /* copied so far */
	uint64_t size; /* size of a source that is one file; 0: it has several files, and the sum
			* is not known yet */
	char *source;  /* NULL: not known */
};

/* Reads from the journal how much of a copy is done, while it is being made or after its mover was
 * interrupted. dir: directory of one copy (place.h). Returns 1: *p is set, and the caller frees
 * source; 0: no copy is being made; or an error with err set. */
int record_read_progress(struct record_progress *p, const char *dir, struct error *err);

/* ---- writing ---- */

struct record;

/* Opens the journal to append to it. kind, source: the same as in the manifest. */
int record_open(struct record **rp, int dirfd, const char *name, const char *kind,
		const char *source, struct error *err);
void record_close(struct record *r);
DEFINE_FREEP(struct record, record_close)

/* Add a line. Thread-safe. sums: of a file, else NULL. A line is written to the file at the latest
 * when a line is added a second later. */
int record_add(struct record *r, char type, const struct stat *st, const struct record_sum *sums,
	       size_t n_sums, const char *path, struct error *err);
int record_add_piece(struct record *r, const struct stat *st, size_t index,
		     const struct record_sum *sum, const char *path, struct error *err);

/* Writes all lines that were added since record_open() as a complete manifest called `name`. It is
 * on disk when this returns. */
int record_write_manifest(struct record *r, int dirfd, const char *name, const char *kind,
			  const char *source, struct error *err);
