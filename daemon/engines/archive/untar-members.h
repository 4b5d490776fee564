/*
 * untar-members: the members of an archive, from one of two readers. Our own reader
 * (untar-reader.h) reads the common forms of tars. libarchive (decode.h) reads the rest of a tar
 * from its first uncommon member on, and zips.
 */
#pragma once

#include "common/util/cleanup.h"
#include "daemon/engines/archive/untar-reader.h"

struct members;

/* before_wait() is called when the reader may have to wait for blocks. It must ensure that all
 * blocks are put some time, except STREAM_MAY_HOLD of them. */
struct members_hook {
	void (*before_wait)(void *arg);
	void *arg;
	const char **odd_end; /* see struct piece_source */
};

/* Opens a tar from a stream, which is consumed on success. */
int members_open_tar(struct members **mp, struct stream *in, const struct members_hook *hook,
		     struct error *err);
/* Opens a tar from pieces. */
int members_open_pieces(struct members **mp, const struct piece_source *in,
			const struct members_hook *hook, struct error *err);
/* Opens an archive that libarchive reads. d is consumed on success. */
int members_open_decode(struct members **mp, struct decode *d, const struct members_hook *hook,
			struct error *err);
void members_close(struct members *m);
DEFINE_FREEP(struct members, members_close)

/* members_next() works as decode_next() and, at the end, as decode_finish(): it returns 0 only if
 * the archive is correct to its end. members_read() works as decode_read(). */
int members_next(struct members *m, struct member *member, struct error *err);
int members_read(struct members *m, struct piece *p, struct error *err);
/* See untar_reader_leave(). */
int members_leave(struct members *m, struct piece *p, struct error *err);
