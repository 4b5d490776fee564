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

/* What the headers of a member say, but for the pieces. Begins zeroed. */
struct untar_sparse {
	enum untar_sparse_kind kind;
	bool has_size, has_major, has_minor;
	uint64_t size;	     /* of the file, with its holes */
	const char *records; /* of which some are pieces; lent */
	size_t n_records;    /* bytes */
};

#define UNTAR_SPARSE_PREFIX "GNU.sparse."
#define UNTAR_SPARSE_NAME UNTAR_SPARSE_PREFIX "name" /* is the caller's */

/* A record whose key begins with the prefix. False: it is none of these dialects. */
bool untar_sparse_take_record(struct untar_sparse *s, const struct pax_record *rec);
/* A header of type S. The same. */
bool untar_sparse_take_header(struct untar_sparse *s,
			      const unsigned char block[static UNTAR_BLOCK]);
/* All headers have come. False: something is missing. */
bool untar_sparse_is_complete(const struct untar_sparse *s);

/* Where pieces are given, in their order. */
struct untar_pieces {
	/* 0, or -errno, which stops the reader. */
	int (*add)(void *arg, uint64_t pos, uint64_t size, struct error *err);
	void *arg;
};

/* Begins with the file's size and zeros. */
struct untar_map {
	const struct untar_pieces *pieces;
	uint64_t size;
	uint64_t end;	 /* of the last piece */
	uint64_t packed; /* bytes of all pieces */
	/* of the text */
	bool is_begun;
	uint64_t n_left; /* numbers of it */
	uint64_t number, pos;
	unsigned n_digits;
};

/* All of them: -EBADMSG for what is damaged, and what add of untar_pieces says. */
int untar_map_add(struct untar_map *map, uint64_t pos, uint64_t size, struct error *err);
int untar_map_add_records(struct untar_map *map, const char *records, size_t size,
			  struct error *err);
/* The table of a header, or of a block after it. 1: a block with more of it follows. */
int untar_map_add_header(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
			 struct error *err);
int untar_map_add_table(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
			struct error *err);
/* A block of the text. 1: another one follows. */
int untar_map_add_text(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
		       struct error *err);
/* n: bytes of data that the member has. */
int untar_map_finish(const struct untar_map *map, uint64_t n, struct error *err);
