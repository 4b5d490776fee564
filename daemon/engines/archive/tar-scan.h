/*
 * tar-scan: one pass over the headers of a plain tar, into an index.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct archive_index;
struct archive_piece;
struct error;
struct member;
struct stage_io;

/* A member that the scan has found. */
struct tar_scan_member {
	const struct member *member;
	uint64_t start; /* offset of its data */
	unsigned depth; /* number of archives around it, without the outermost one */
	bool is_opened; /* it is an archive, and its members follow */
	const struct archive_piece
		*pieces; /* only of a sparse file; see archive_index_get_new_pieces() */
	size_t n_pieces;
	uint64_t packed; /* bytes of all pieces */
};

struct tar_scan {
	int fd;
	uint64_t size;	     /* size of the file */
	struct stage_io *io; /* may be NULL; progress is the offset of the walk, and members */
	/* Called for each member, before the index has accepted it. NULL: not called. */
	int (*has_member)(void *arg, const struct tar_scan_member *found, struct error *err);
	void *arg;
	/* Number of threads that may read headers ahead. Less than 2: no thread helps. */
	unsigned n_readers;
	uint64_t segment_size; /* not 0: the threads read ahead from the beginning, segment_size
				* bytes each */
	bool is_fast; /* the threads read ahead from the beginning as if reads took no time; for
		       * tests */
	const char **odd_end; /* see struct piece_source */
	bool nested;	      /* members that are plain tars become directories, as in extraction */
};

/*
 * Adds all members; the caller finishes the index. Returns 0 only if the archive is complete to its
 * last byte. -ENODATA: cut off; -EBADMSG: damaged; -EIO: a tar in the tar is cut off or damaged;
 * -EOPNOTSUPP: a member that only extraction can read (old dialects; with nested, archives that are
 * not plain tars); -ECANCELED; and the errors of untar_reader_next() and archive_index_add().
 */
int tar_scan(struct archive_index *x, const struct tar_scan *scan, struct error *err);
