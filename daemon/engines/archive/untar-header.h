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
#define UNTAR_NAME_SIZE 257 /* prefix, slash, name, NUL */
#define UNTAR_LINK_SIZE 101

enum untar_kind {
	UNTAR_FOREIGN, /* its checksum is right, but it is not for this reader */
	UNTAR_DAMAGED, /* its checksum is wrong */
	UNTAR_ZERO,    /* zeros: the end */
	UNTAR_MEMBER,
	UNTAR_LONG_NAME, /* the name of the member that follows, too long for its header */
	UNTAR_LONG_LINK,
	UNTAR_PAX,	  /* records about the member that follows */
	UNTAR_GLOBAL,	  /* records about all that follow */
	UNTAR_OLD_SPARSE, /* a member in GNU's oldest dialect for files with holes */
};

struct untar_header {
	enum member_type type; /* of a member */
	uint64_t size;	       /* of the data behind the header */
	int64_t mtime;
	mode_t mode;
	char name[UNTAR_NAME_SIZE], link[UNTAR_LINK_SIZE];
};

/* h is written for members and what comes before a member (its size). */
enum untar_kind untar_header_read(const unsigned char block[static UNTAR_BLOCK],
				  struct untar_header *h);

/* A field of 12 bytes. */
bool untar_header_read_number(const unsigned char p[static 12], uint64_t *vp);
