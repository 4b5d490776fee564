/*
 * untar-header: checks and parses one block of a tar that should be a header. Pure. Strict: a
 * header that is not written as GNU tar, bsdtar, star, Python and the standards write it is
 * UNTAR_FOREIGN and is left to a reader that knows more dialects, even if its meaning could be
 * guessed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engines/archive/decode.h"

#define UNTAR_BLOCK 512
#define UNTAR_NAME_SIZE 257 /* prefix, slash, name and NUL */
#define UNTAR_LINK_SIZE 101

enum untar_kind {
	UNTAR_FOREIGN,	   /* the checksum is correct, but this reader does not know the header */
	UNTAR_DAMAGED,	   /* the checksum is wrong */
	UNTAR_STAR_SPARSE, /* in star's dialect; libarchive takes it for a plain file */
	UNTAR_ZERO,	   /* a block of zeros: the end */
	UNTAR_MEMBER,
	UNTAR_LONG_NAME, /* the name of the next member, too long for its header */
	UNTAR_LONG_LINK,
	UNTAR_PAX,	  /* records about the next member */
	UNTAR_GLOBAL,	  /* records about all following members */
	UNTAR_OLD_SPARSE, /* a sparse file in GNU's oldest dialect */
};

struct untar_header {
	enum member_type type; /* only of a member */
	uint64_t size;	       /* size of the data after the header */
	int64_t mtime;
	mode_t mode;
	char name[UNTAR_NAME_SIZE], link[UNTAR_LINK_SIZE];
};

/* Parses a block. Fills h for members and, only its size, for blocks that come before a member. */
enum untar_kind untar_header_read(const unsigned char block[static UNTAR_BLOCK],
				  struct untar_header *h);

/* Reads only the kind and the size, and checks nothing else, not even the checksum: to find out
 * where the next header probably is. */
enum untar_kind untar_header_guess(const unsigned char block[static UNTAR_BLOCK], uint64_t *sizep);

/* Reads a number from a field of 12 bytes. Returns false if there is none. */
bool untar_header_read_number(const unsigned char p[static 12], uint64_t *vp);
