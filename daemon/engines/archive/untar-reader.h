/*
 * untar-reader: the members of a tar from pieces of it, in one pass. Rare forms (old dialects, and
 * for extraction sparse files) are not read here: the rest of the archive is passed on as a stream.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"
#include "daemon/engines/archive/decode.h"

struct block;
struct error;
struct stream;
struct untar_pieces;
struct untar_reader;

/* Bytes in a block, which is the giver's until it is asked for the next piece; who needs it longer
 * takes a reference. */
struct piece {
	struct block *block;
	const unsigned char *data; /* NULL: all of a block that was not read (block.h) */
	size_t size;
	uint64_t offset; /* in the member that it is of */
};

/* Where pieces come from. 1, 0 at the end, -errno. leave and take_back may be NULL. */
struct piece_source {
	int (*next)(void *arg, struct piece *p, struct error *err);
	void *arg;
	void (*leave)(void *arg, uint64_t n, bool needed); /* see stream_leave() */
	bool (*take_back)(void *arg, size_t back, uint64_t n);
	/* Not NULL: a tar without its end, or with more behind it, is accepted, and what is wrong
	 * is put here. */
	const char **odd_end;
	/* Not NULL: sparse files are members, too. Their size is the one with the holes, their
	 * pieces are given here before, and what is read of them is the pieces alone. */
	const struct untar_pieces *pieces;
};

#define UNTAR_NO_END "the two blocks of zeros at its end are missing"
#define UNTAR_MORE "there is more after the end of the archive"

int untar_reader_new(struct untar_reader **rp, const struct piece_source *in, struct error *err);
void untar_reader_free(struct untar_reader *r);
DEFINE_FREEP(struct untar_reader, untar_reader_free)

/*
 * The next member; what was not read of the one before is passed over. Texts are lent until the
 * next one. 1; 0 at the end, when the two blocks of zeros have come and nothing else behind them;
 * UNTAR_HAND_OVER; -ENODATA cut off, -EBADMSG damaged, -EINVAL more behind the end.
 */
#define UNTAR_HAND_OVER 2
int untar_reader_next(struct untar_reader *r, struct member *m, struct error *err);

/* The next piece of the member's data. 1, 0, -errno. */
int untar_reader_read(struct untar_reader *r, struct piece *p, struct error *err);
/* Bytes of the piece that came last that were not taken yet. */
size_t untar_reader_get_left(const struct untar_reader *r);
/* They are lost: the next piece begins where the data of the member does, of which nothing was
 * read. */
void untar_reader_forget(struct untar_reader *r);
/* From now on pieces of this member may come without data. p, the first of them, may become such a
 * one, of the whole member. 0, -errno. */
int untar_reader_leave(struct untar_reader *r, struct piece *p, struct error *err);

/* After UNTAR_HAND_OVER: a tar of the members from that one on, good as long as r. */
int untar_reader_hand_over(struct untar_reader *r, struct stream **sp, struct error *err);

/* UNTAR_NO_END: -ENODATA; UNTAR_MORE: -EINVAL. 0 where odd_end is there to take it. */
int untar_reader_refuse_no_end(const char **odd_end, struct error *err);
int untar_reader_refuse_more(const char **odd_end, struct error *err);
