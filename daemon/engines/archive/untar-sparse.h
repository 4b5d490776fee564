/*
 * untar-sparse: the positions of the pieces of a sparse file, in each dialect of tar. Pure.
 *
 * GNU's old one has a table in the header and in blocks after it; pax 0.0 and 0.1 have records, and
 * pax 1.0 has a text in front of the data.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/engines/archive/untar-header.h"

struct error;
struct pax_record;

enum untar_sparse_kind {
	UNTAR_SPARSE_NONE,
	UNTAR_SPARSE_TABLE,
	UNTAR_SPARSE_RECORDS,
	UNTAR_SPARSE_TEXT,
};

/* Data from the headers of a member, without the pieces. Zeroed at first. */
struct untar_sparse {
	enum untar_sparse_kind kind;
	bool has_size, has_major, has_minor;
	uint64_t size;	     /* size of the file, including holes */
	const char *records; /* pax records, some of which are pieces; lent */
	size_t n_records;    /* size of records in bytes */
};

#define UNTAR_SPARSE_PREFIX "GNU.sparse."
#define UNTAR_SPARSE_NAME UNTAR_SPARSE_PREFIX "name" /* the caller handles this record */

/* Takes a record whose key begins with the prefix. Returns false if it belongs to none of these
 * dialects. */
bool untar_sparse_take_record(struct untar_sparse *s, const struct pax_record *rec);
/* Takes a header of type S. Returns the same. */
bool untar_sparse_take_header(struct untar_sparse *s,
			      const unsigned char block[static UNTAR_BLOCK]);
/* Called after all headers. Returns false if something is missing. */
bool untar_sparse_is_complete(const struct untar_sparse *s);

/* Receives the pieces in their order. */
struct untar_pieces {
	/* Returns 0, or -errno, which stops the reader. */
	int (*add)(void *arg, uint64_t pos, uint64_t size, struct error *err);
	void *arg;
};

/* The state of reading pieces. At first, all but pieces and size is zero. */
struct untar_map {
	const struct untar_pieces *pieces;
	uint64_t size;
	uint64_t end;	 /* end of the last piece */
	uint64_t packed; /* bytes of all pieces */
	bool has_piece;	 /* of a file of holes, this is an empty one at its end */
	/* For pax 1.0: */
	bool is_begun;
	uint64_t n_left; /* numbers that are still expected */
	uint64_t number, pos;
	unsigned n_digits;
};

/* These functions add pieces. They return -EBADMSG for damaged data, and errors of add() in
 * untar_pieces. */
int untar_map_add(struct untar_map *map, uint64_t pos, uint64_t size, struct error *err);
int untar_map_add_records(struct untar_map *map, const char *records, size_t size,
			  struct error *err);
/* Add the table of a header, or of a block after it. Return 1 if another block of the table
 * follows. */
int untar_map_add_header(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
			 struct error *err);
int untar_map_add_table(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
			struct error *err);
/* Adds a block of the text. Returns 1 if another one follows. */
int untar_map_add_text(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
		       struct error *err);
/* Checks that the pieces are complete. n: size of the member's data in bytes. */
int untar_map_finish(const struct untar_map *map, uint64_t n, struct error *err);
