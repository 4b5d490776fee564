/*
 * untar-parser: makes members from headers and their bodies. Pure: the caller provides the bytes,
 * one block or body at a time, so that the parser can be tested and fuzzed without a file.
 */
#pragma once

#include "common/dataset/member-path.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-sparse.h"

#define UNTAR_MAX_TEXT (2 * MEMBER_PATH_SIZE) /* of a long name; longer is foreign */
#define UNTAR_MAX_PAX (60 * 1024)

struct untar_parser {
	enum untar_kind body;  /* whose body is to come */
	bool has_gnu, has_pax; /* something is known about the next member, from which dialect */
	bool has_name, has_link, has_size, has_mtime;
	uint64_t size;
	int64_t mtime;
	long mtime_ns;
	char name[UNTAR_MAX_TEXT], link[UNTAR_MAX_TEXT];
	struct untar_header header;
	bool takes_sparse; /* set by the caller: files with holes are members, and not foreign */
	bool has_sparse_name;
	char sparse_name[UNTAR_MAX_TEXT];
	struct untar_sparse sparse; /* of the next member */
	struct untar_sparse found;  /* of the last one */
};

enum untar_step {
	UNTAR_STEP_MEMBER, /* *m; m->size bytes of data follow, filled up to whole blocks */
	UNTAR_STEP_BODY,   /* so many bytes follow, filled up, for untar_parser_add_body() */
	UNTAR_STEP_MORE,   /* the body was taken: a header is next, of the same member */
	UNTAR_STEP_NEXT,   /* the same, and nothing is known about the next member */
	UNTAR_STEP_ZERO,   /* a block of zeros where a member might begin */
	UNTAR_STEP_DAMAGED,
	UNTAR_STEP_SLASH,   /* *m: a file with data whose name ends in a slash, as a directory's */
	UNTAR_STEP_NO_END,  /* of untar-reader.c: no bytes are left where a member might begin */
	UNTAR_STEP_FOREIGN, /* not for this reader, from the first header of this member on */
};

/* p begins zeroed. Texts of m are p's, until the next call. After damaged and foreign p is of no
 * use. */
enum untar_step untar_parser_add_header(struct untar_parser *p,
					const unsigned char block[static UNTAR_BLOCK],
					struct member *m, size_t *body_sizep);
enum untar_step untar_parser_add_body(struct untar_parser *p, const char *data, size_t size);
