/*
 * untar-members: the members of an archive, from one of two readers. Our own reader
 * (untar-reader.h) reads the common forms of tars. libarchive (decode.h) reads the rest of a tar
 * from its first uncommon member on, and zips.
 */
#pragma once

#include "common/util/cleanup.h"
#include "daemon/engines/archive/untar-reader.h"

struct members;

/* Called before there may be a wait for blocks: see to it that those which were taken are put some
 * time, but for STREAM_MAY_HOLD of them. */
struct members_hook {
	void (*before_wait)(void *arg);
	void *arg;
	const char **odd_end; /* see struct piece_source */
};

/* A tar from a stream, which is consumed on success. */
int members_open_tar(struct members **mp, struct stream *in, const struct members_hook *hook,
		     struct error *err);
/* A tar from pieces. */
int members_open_pieces(struct members **mp, const struct piece_source *in,
			const struct members_hook *hook, struct error *err);
/* What libarchive reads, consumed on success. */
int members_open_decode(struct members **mp, struct decode *d, const struct members_hook *hook,
			struct error *err);
void members_close(struct members *m);
DEFINE_FREEP(struct members, members_close)

/* As decode_next(), decode_read() and decode_finish() in one: 0 when all is well to the very end.
 */
int members_next(struct members *m, struct member *member, struct error *err);
int members_read(struct members *m, struct piece *p, struct error *err);
/* See untar_reader_leave(). */
int members_leave(struct members *m, struct piece *p, struct error *err);
