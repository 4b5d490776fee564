/*
 * inflate: one gzip member at a time, header, checksum and length verified. inflate-isal.c where
 * the build has ISA-L, which is twice as fast and more, else inflate-zlib.c.
 */
#pragma once

#include <stddef.h>

#include "common/util/cleanup.h"

struct error;
struct inflate;

struct inflate_io {
	const unsigned char *in;
	size_t in_size;
	unsigned char *out;
	size_t out_size; /* room */
};

int inflate_new(struct inflate **ip);
void inflate_free(struct inflate *i);
DEFINE_FREEP(struct inflate, inflate_free)

/* To the beginning of a member. */
void inflate_reset(struct inflate *i);

/* Goes as far as io lets it, and advances it. 1: needs more input or more room, 0: the member is
 * complete, -EBADMSG, -ENOMEM. */
int inflate_run(struct inflate *i, struct inflate_io *io, struct error *err);
