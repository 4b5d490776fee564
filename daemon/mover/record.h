/*
 * record: what is known of a copy, a line for each thing in it. As the journal it grows while the
 * copy is made, and tells the next mover what is there already; as the manifest it stands beside
 * the whole copy.
 *
 *   stage-data-copy 1 SUM          begins a manifest, SUM: the checksum's name
 *   s KIND SOURCE                  then: file or dir, and where it came from
 *   d SECONDS.NANOSECONDS PATH     directory, with the source's time of its content
 *   f SIZE SECONDS.NANOSECONDS SUMS PATH
 *                                  file, with a sum for each RECORD_PIECE bytes, and commas
 *   h SIZE SECONDS.NANOSECONDS PATH
 *                                  another name of a file that has a line of its own
 *   l SECONDS.NANOSECONDS PATH     symbolic link
 *   p SIZE SECONDS.NANOSECONDS INDEX SUM PATH    one piece of a file (journal alone)
 *   e LINES                        ends a manifest: so many lines before this one
 *
 * Paths are relative to the copy, "." itself; blanks, control bytes and "%" as %XX.
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

#define RECORD_PIECE (16ULL << 20) /* as copy-ranges.h */

struct record_sum {
	char text[SUM_TEXT_SIZE]; /* "": not known */
};

struct record_entry {
	struct record_entry *next;  /* of the same bucket */
	struct record_entry *below; /* the line before, for who goes through all */
	char type;		    /* d f h l, p: a file not all of whose pieces are known */
	uint64_t size;
	int64_t seconds;
	uint32_t nanoseconds;
	struct record_sum *sums;
	size_t n_sums;
	char path[];
};

struct record_table {
	struct record_entry **buckets;
	size_t n_buckets, n_entries;
	struct siphash_key key;	   /* of the hash of paths, which others choose */
	struct record_entry *last; /* of all lines, by below; NULL: none */
	char *source, kind[8];	   /* of a manifest; NULL, "" if it has none */
	bool whole;		   /* has its first and last line, and all between */
};

void record_table_free(struct record_table *t);
DEFINE_FREEP(struct record_table, record_table_free)

/* Reads name beneath dirfd; no such file: an empty table. A line that can't be read is left out,
 * and the table is not whole then. max_lines: of more it reads none (-E2BIG); 0: no limit. */
int record_load(struct record_table **tp, int dirfd, const char *name, size_t max_lines,
		struct error *err);

/* NULL: nothing known. Lent. */
const struct record_entry *record_find(const struct record_table *t, const char *path);

/* Is it of this size and time? */
bool record_entry_is(const struct record_entry *e, const struct stat *st);

struct record_progress {
	uint64_t bytes, files; /* done */
	uint64_t size; /* of a source that is one file, 0: of many, whose sum nobody knows yet */
	char *source;  /* NULL: not said */
};

/* How far a copy is that is being made, or was when its mover was interrupted, from its journal.
 * dir: of one copy (place.h). 1: filled, the caller frees source; 0: nothing is being made; -errno.
 */
int record_read_progress(struct record_progress *p, const char *dir, struct error *err);

/* ---- writing ---- */

struct record;

/* Opens the journal to append to it. kind, source: as in the manifest. */
int record_open(struct record **rp, int dirfd, const char *name, const char *kind,
		const char *source, struct error *err);
void record_close(struct record *r);
DEFINE_FREEP(struct record, record_close)

/* Any thread. sums: of a file, else NULL. What is added reaches the file within a second of the
 * next one. */
int record_add(struct record *r, char type, const struct stat *st, const struct record_sum *sums,
	       size_t n_sums, const char *path, struct error *err);
int record_add_piece(struct record *r, const struct stat *st, size_t index,
		     const struct record_sum *sum, const char *path, struct error *err);

/* Writes what was added since record_open() as a whole manifest called name, on disk when it
 * returns. */
int record_write_manifest(struct record *r, int dirfd, const char *name, const char *kind,
			  const char *source, struct error *err);
