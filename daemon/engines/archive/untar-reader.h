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

/* Bytes in a block. The block belongs to the source and is valid until the next piece; a caller
 * that needs it longer takes a reference. */
struct piece {
	struct block *block;
	const unsigned char *data; /* NULL: the whole block was not read (block.h) */
	size_t size;
	uint64_t offset; /* offset in the member's data */
};

/* The source of pieces. next() returns 1, 0 at the end, or -errno. leave and take_back may be
 * NULL. */
struct piece_source {
	int (*next)(void *arg, struct piece *p, struct error *err);
	void *arg;
	void (*leave)(void *arg, uint64_t n, bool needed); /* see stream_leave() */
	bool (*take_back)(void *arg, size_t back, uint64_t n);
	/* Not NULL: a tar whose end is missing, or is followed by other data, is accepted, and
	 * *odd_end says what is wrong. */
	const char **odd_end;
	/* Not NULL: sparse files are members, too. Their size includes the holes. Their pieces are
	 * added here before, and reading them returns the data of the pieces only. */
	const struct untar_pieces *pieces;
};

#define UNTAR_NO_END "the two blocks of zeros at its end are missing"
#define UNTAR_MORE "there is more after the end of the archive"

int untar_reader_new(struct untar_reader **rp, const struct piece_source *in, struct error *err);
void untar_reader_free(struct untar_reader *r);
DEFINE_FREEP(struct untar_reader, untar_reader_free)

/*
 * Gets the next member, and skips unread data of the one before. Its texts are lent until the next
 * call. Returns 1; 0 at the end, if it is two blocks of zeros and only zeros follow;
 * UNTAR_HAND_OVER; -ENODATA: cut off; -EBADMSG: damaged; -EINVAL: other data follows the end.
 */
#define UNTAR_HAND_OVER 2
int untar_reader_next(struct untar_reader *r, struct member *m, struct error *err);

/* Gets the next piece of the member's data. Returns 1, 0 at the end, or -errno. */
int untar_reader_read(struct untar_reader *r, struct piece *p, struct error *err);
/* Returns the bytes of the last piece that were not used yet. */
size_t untar_reader_get_left(const struct untar_reader *r);
/* Drops these bytes: the next piece is at the beginning of the member's data, of which nothing was
 * read. */
void untar_reader_forget(struct untar_reader *r);
/* Allows pieces of this member without data. p, which must be its first piece, may become a piece
 * without data for the whole member. Returns 0 or -errno. */
int untar_reader_leave(struct untar_reader *r, struct piece *p, struct error *err);

/* After UNTAR_HAND_OVER: makes a stream of the tar from this member on. It is valid as long as
 * r. */
int untar_reader_hand_over(struct untar_reader *r, struct stream **sp, struct error *err);

/* Report a wrong end of a tar: UNTAR_NO_END as -ENODATA, UNTAR_MORE as -EINVAL. If odd_end is not
 * NULL, set it and return 0. */
int untar_reader_refuse_no_end(const char **odd_end, struct error *err);
int untar_reader_refuse_more(const char **odd_end, struct error *err);

/* Reports a sparse file in star's dialect, of which at most 100 bytes of the name are used. */
int untar_reader_refuse_star(const char *name, struct error *err);
