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

/* A member as it was found. */
struct tar_scan_member {
	const struct member *member;
	uint64_t start; /* of its data */
	unsigned depth; /* archives that are around it, but for the outermost */
	bool is_opened; /* it is one, and its members follow */
	const struct archive_piece
		*pieces; /* of a sparse file; see archive_index_get_new_pieces() */
	size_t n_pieces;
	uint64_t packed; /* bytes of all of them */
};

struct tar_scan {
	int fd;
	uint64_t size;	     /* of the file */
	struct stage_io *io; /* may be NULL. Progress is how far the walk has come, and members */
	/* Each member, before the index has taken it. NULL: nobody wants them. */
	int (*has_member)(void *arg, const struct tar_scan_member *found, struct error *err);
	void *arg;
	/* So many threads may read headers ahead where reads turn out to be slow; less than 2: none
	 * does. */
	unsigned n_readers;
	uint64_t segment_size; /* not 0: they do from the beginning, so many bytes each */
	const char **odd_end;  /* see struct piece_source */
	bool nested; /* members that are plain tars become directories, as by extraction */
};

/*
 * Adds all members; the caller finishes the index. 0 only when the archive is whole to its last
 * byte. -ENODATA: cut off; -EBADMSG: damaged; -EIO: a tar in the tar is one of both; -EOPNOTSUPP: a
 * member that only extraction can read (old dialects; with nested, archives that are
 * no plain tars); -ECANCELED; and what untar_reader_next() and archive_index_add() say.
 */
int tar_scan(struct archive_index *x, const struct tar_scan *scan, struct error *err);
