/*
 * untar-parser: makes members from headers and their bodies. Pure: the caller provides the bytes,
 * one block or body at a time, so that the parser can be tested and fuzzed without a file.
 */
#pragma once

#include "common/dataset/member-path.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-sparse.h"

#define UNTAR_MAX_TEXT (2 * MEMBER_PATH_SIZE) /* limit of a long name; a longer one is foreign */
#define UNTAR_MAX_PAX (60 * 1024)

struct untar_parser {
	enum untar_kind body;  /* kind of the header whose body comes next */
	bool has_gnu, has_pax; /* headers of this dialect about the next member were read */
	bool has_name, has_link, has_size, has_mtime;
	uint64_t size;
	int64_t mtime;
	long mtime_ns;
	char name[UNTAR_MAX_TEXT], link[UNTAR_MAX_TEXT];
	struct untar_header header;
	bool takes_sparse; /* set by the caller: sparse files are members and not foreign */
	bool has_sparse_name;
	char sparse_name[UNTAR_MAX_TEXT];
	struct untar_sparse sparse; /* headers of the next member */
	struct untar_sparse found;  /* headers of the last member */
};

enum untar_step {
	UNTAR_STEP_MEMBER, /* *m is a member; m->size bytes of data follow, padded to whole
			    * blocks */
	UNTAR_STEP_BODY,   /* a body of *body_sizep bytes follows, padded, for
			    * untar_parser_add_body() */
	UNTAR_STEP_MORE,   /* the body was accepted; another header of the same member follows */
	UNTAR_STEP_NEXT,   /* the body was accepted; the next member begins */
	UNTAR_STEP_ZERO,   /* a block of zeros, where a member could begin */
	UNTAR_STEP_DAMAGED,
	UNTAR_STEP_STAR,    /* a sparse file in star's dialect */
	UNTAR_STEP_SLASH,   /* *m is a file with data, whose name ends in a slash as a
			     * directory's */
	UNTAR_STEP_NO_END,  /* only in untar-reader.c: the tar ends where a member could begin */
	UNTAR_STEP_FOREIGN, /* this reader does not know this member; the other reader begins
			     * with its first header */
};

/* p must be zeroed at first. Texts of m point into p and are valid until the next call. After
 * damaged and foreign, p cannot be used any more. */
enum untar_step untar_parser_add_header(struct untar_parser *p,
					const unsigned char block[static UNTAR_BLOCK],
					struct member *m, size_t *body_sizep);
enum untar_step untar_parser_add_body(struct untar_parser *p, const char *data, size_t size);
