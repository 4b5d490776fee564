/*
 * inflate: decompresses one gzip member at a time, and verifies its header, checksum and length; or
 * a deflate stream without a header, as in zips. inflate-isal.c is used if the build has ISA-L,
 * which is at least twice as fast, otherwise inflate-zlib.c.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct error;
struct inflate;

struct inflate_io {
	const unsigned char *in;
	size_t in_size;
	unsigned char *out;
	size_t out_size; /* room */
};

/* Bytes at the end of a bare stream's input that a finished inflate may leave, or may have taken
 * although they are behind the stream. */
#define INFLATE_AHEAD 8u
/* No less than one struct inflate takes. */
#define INFLATE_MEMORY (96u << 10)

int inflate_new(struct inflate **ip);
/* Of a bare stream, without header and checksum. */
int inflate_new_raw(struct inflate **ip);
/* The same stream at the same place. -ENOMEM. */
int inflate_clone(struct inflate **copyp, const struct inflate *i);
void inflate_free(struct inflate *i);
DEFINE_FREEP(struct inflate, inflate_free)

/* To the beginning of a member or stream. */
void inflate_reset(struct inflate *i);

/* Goes as far as io lets it, and advances it. 1: needs more input or more room, 0: the member is
 * complete, -EBADMSG, -ENOMEM. */
int inflate_run(struct inflate *i, struct inflate_io *io, struct error *err);

/* The checksum of gzip and zip, of what crc is of and n bytes behind it. 0: of nothing. */
uint32_t inflate_add_crc(uint32_t crc, const void *data, size_t n);
