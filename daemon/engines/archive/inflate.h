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
	size_t out_size; /* free bytes at out */
};

/* A finished inflate of a raw stream may leave up to so many bytes of its input, or may have taken
 * so many bytes that follow the stream. */
#define INFLATE_AHEAD 8u
/* Upper limit of the memory of one struct inflate. */
#define INFLATE_MEMORY (96u << 10)

int inflate_new(struct inflate **ip);
/* For a raw deflate stream, without header and checksum. */
int inflate_new_raw(struct inflate **ip);
/* Makes a copy with the same state. Returns 0 or -ENOMEM. */
int inflate_clone(struct inflate **copyp, const struct inflate *i);
void inflate_free(struct inflate *i);
DEFINE_FREEP(struct inflate, inflate_free)

/* Prepares for the beginning of a new member or stream. */
void inflate_reset(struct inflate *i);

/* Decompresses as much as io allows, and advances io. Returns 1: it needs more input or more room;
 * 0: the member is complete; -EBADMSG; -ENOMEM. */
int inflate_run(struct inflate *i, struct inflate_io *io, struct error *err);

/* Adds n bytes to crc, the checksum of gzip and zip. Returns the new checksum. The checksum of no
 * bytes is 0. */
uint32_t inflate_add_crc(uint32_t crc, const void *data, size_t n);
