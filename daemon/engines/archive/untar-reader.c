/*
 * Headers are parsed in place in their piece; a header that is split between two pieces is copied
 * together. The bytes of a member that were read before it proved to be UNTAR_FOREIGN (its headers
 * and their bodies, whose size is bounded) are kept in raw, so that they can be passed to the other
 * reader.
 */
#include "daemon/engines/archive/untar-reader.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/untar-parser.h"

#define CACHE_LINE 64
#define PREFETCH_SIZE (UNTAR_BLOCK + 2 * CACHE_LINE)

/* Room for two long texts with headers, or for one body of records. */
#define RAW_SIZE (UNTAR_MAX_PAX + 4 * UNTAR_BLOCK)

struct untar_reader {
	struct piece_source in;
	struct piece piece;	     /* the rest of the present piece */
	uint64_t left;		     /* remaining bytes of the member's data */
	uint64_t size;		     /* size of the member's data */
	size_t padding;		     /* padding after the data */
	bool leaves;		     /* data of this member may be left out for others to read */
	const unsigned char *header; /* the member's header; valid until the next block is read */
	size_t n_raw;
	struct untar_parser parser;
	unsigned char raw[RAW_SIZE];
};
_Static_assert(2 * (UNTAR_MAX_TEXT + 2 * UNTAR_BLOCK) < RAW_SIZE, "long name and long link fit");

int untar_reader_refuse_star(const char *name, struct error *err)
{
	error_set(err, EOPNOTSUPP, "%.100s is a sparse file in star's format, which is not read",
		  name);
	return error_set_hint(err, -EOPNOTSUPP,
			      "unpack it by GNU tar and make it again, by tar -C DIR -cSf FILE .");
}

int untar_reader_refuse_more(const char **odd_end, struct error *err)
{
	if (odd_end) {
		*odd_end = UNTAR_MORE ": what is there is not staged";
		return 0;
	}
	error_set(err, EINVAL, UNTAR_MORE ": several archives in one file, or garbage");
	return error_set_hint(
		err, -EINVAL,
		"join archives by tar --concatenate, make it again, or take what is before "
		"the end by verify=none");
}

int untar_reader_refuse_no_end(const char **odd_end, struct error *err)
{
	if (odd_end) {
		*odd_end = UNTAR_NO_END ": it may be half of an archive";
		return 0;
	}
	return error_set(err, ENODATA, UNTAR_NO_END);
}

static int refuse_cut(struct error *err)
{
	return error_set(err, ENODATA, "truncated tar archive");
}

int untar_reader_new(struct untar_reader **rp, const struct piece_source *in, struct error *err)
{
	struct untar_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return error_set(err, ENOMEM, "out of memory");
	r->in = *in;
	r->parser.takes_sparse = in->pieces != NULL;
	*rp = r;
	return 0;
}

void untar_reader_free(struct untar_reader *r)
{
	free(r);
}

/* Ensures that the piece has bytes. Returns 1, 0 at the end, or -errno. */
static int refill(struct untar_reader *r, struct error *err)
{
	int n = 1;

	while (r->piece.size == 0 && n > 0)
		n = r->in.next(r->in.arg, &r->piece, err);
	return n;
}

/* Does the same for a member's data, of which n bytes remain. */
static int refill_data(struct untar_reader *r, uint64_t n, bool needed, struct error *err)
{
	int more;

	if (r->piece.size == 0 && r->in.leave && (r->leaves || !needed))
		r->in.leave(r->in.arg, n, needed);
	more = refill(r, err);
	if (more > 0 && !r->piece.data && r->piece.size > n)
		return error_set(err, EBADMSG, "more was left out than there is");
	return more;
}

static void advance(struct untar_reader *r, size_t n)
{
	if (r->piece.data)
		r->piece.data += n;
	r->piece.size -= n;
}

/* Appends up to n bytes to raw. Returns their number or -errno. */
static ssize_t read_raw(struct untar_reader *r, size_t n, struct error *err)
{
	size_t got = 0, part;
	int more = 1;

	if (n > sizeof(r->raw) - r->n_raw)
		return error_set(err, EBADMSG, "special header too large");
	while (got < n && (more = refill(r, err)) > 0) {
		part = r->piece.size < n - got ? r->piece.size : n - got;
		memcpy(r->raw + r->n_raw, r->piece.data, part);
		r->n_raw += part;
		got += part;
		advance(r, part);
	}
	return more < 0 ? more : (ssize_t)got;
}

static size_t get_padding(uint64_t size)
{
	return (size_t)(-size % UNTAR_BLOCK);
}

/* Skips the rest of a member. */
static int skip(struct untar_reader *r, struct error *err)
{
	uint64_t n = r->left + r->padding;
	size_t part;
	int more = 1;

	while (n > 0 && (more = refill_data(r, n, false, err)) > 0) {
		part = r->piece.size < n ? r->piece.size : (size_t)n;
		advance(r, part);
		n -= part;
	}
	if (more == 0)
		return refuse_cut(err);
	r->left = r->padding = 0;
	r->leaves = false;
	return more < 0 ? more : 0;
}

/* Gets the next block. It is copied to raw if raw is not empty, or if the block is split between
 * pieces. Returns 1, 0 at the end, or -errno. */
static int next_block(struct untar_reader *r, const unsigned char **blockp, struct error *err)
{
	int more = refill(r, err);
	ssize_t n;

	if (more <= 0)
		return more;
	if (r->n_raw == 0 && r->piece.size >= UNTAR_BLOCK) {
		*blockp = r->piece.data;
		advance(r, UNTAR_BLOCK);
		return 1;
	}
	*blockp = r->raw + r->n_raw;
	n = read_raw(r, UNTAR_BLOCK, err);
	if (n >= 0 && n < UNTAR_BLOCK)
		return refuse_cut(err);
	return n < 0 ? (int)n : 1;
}

/* Keeps a header in raw, because it is needed again. */
static void keep_raw(struct untar_reader *r, const unsigned char *block)
{
	if (block == r->raw + r->n_raw - UNTAR_BLOCK)
		return;
	memcpy(r->raw, block, UNTAR_BLOCK);
	r->n_raw = UNTAR_BLOCK;
}

static int read_body(struct untar_reader *r, size_t size, enum untar_step *stepp, struct error *err)
{
	const char *body = (const char *)r->raw + r->n_raw;
	size_t whole = size + get_padding(size);
	ssize_t n = read_raw(r, whole, err);

	if (n < 0)
		return (int)n;
	if ((size_t)n < whole)
		return refuse_cut(err);
	*stepp = untar_parser_add_body(&r->parser, body, size);
	return 0;
}

/* Checks the end of the tar, after its first block of zeros was read. */
static int check_end(struct untar_reader *r, struct error *err)
{
	static const unsigned char zeros[4096];
	size_t seen = 0, n;
	int more;

	while ((more = refill(r, err)) > 0) {
		n = r->piece.size < sizeof(zeros) ? r->piece.size : sizeof(zeros);
		if (seen < UNTAR_BLOCK && n > UNTAR_BLOCK - seen)
			n = UNTAR_BLOCK - seen;
		if (memcmp(r->piece.data, zeros, n) != 0)
			return seen < UNTAR_BLOCK ? untar_reader_refuse_no_end(r->in.odd_end, err)
						  : untar_reader_refuse_more(r->in.odd_end, err);
		advance(r, n);
		seen += seen < UNTAR_BLOCK ? n : 0;
	}
	if (more < 0)
		return more;
	return seen < UNTAR_BLOCK ? untar_reader_refuse_no_end(r->in.odd_end, err) : 0;
}

/* Prefetches the header after the member's data, and the beginning of the next data. Another thread
 * has written them, so they are in another CPU's cache. */
static void prefetch_next(const struct untar_reader *r)
{
	uint64_t at = r->left + r->padding;

	if (at >= r->piece.size || r->piece.size - at < PREFETCH_SIZE)
		return;
	for (size_t i = 0; i < PREFETCH_SIZE; i += CACHE_LINE)
		__builtin_prefetch(r->piece.data + at + i);
}

/* Reads one header, and its body if it is not a member's. */
static int take_header(struct untar_reader *r, struct member *m, enum untar_step *stepp,
		       struct error *err)
{
	const unsigned char *block;
	size_t size;
	int n = next_block(r, &block, err);

	if (n < 0)
		return n;
	if (n == 0 && r->n_raw > 0) /* after a long name, more than the end is missing */
		return refuse_cut(err);
	if (n == 0) {
		*stepp = UNTAR_STEP_NO_END;
		return untar_reader_refuse_no_end(r->in.odd_end, err);
	}
	r->header = block;
	*stepp = untar_parser_add_header(&r->parser, block, m, &size);
	if (*stepp == UNTAR_STEP_FOREIGN || *stepp == UNTAR_STEP_BODY)
		keep_raw(r, block);
	return *stepp == UNTAR_STEP_BODY ? read_body(r, size, stepp, err) : 0;
}

/* ---- sparse files ---- */

static int read_block(struct untar_reader *r, const unsigned char **blockp, struct error *err)
{
	int n;

	r->n_raw = 0;
	n = next_block(r, blockp, err);
	return n == 0 ? refuse_cut(err) : n;
}

static int read_table(struct untar_reader *r, struct untar_map *map, struct error *err)
{
	const unsigned char *block;
	int more = untar_map_add_header(map, r->header, err);

	while (more > 0) {
		more = read_block(r, &block, err);
		if (more > 0)
			more = untar_map_add_table(map, block, err);
	}
	return more;
}

/* Reads the text of pax 1.0, which is at the beginning of the data. */
static int read_text(struct untar_reader *r, struct untar_map *map, struct error *err)
{
	const unsigned char *block;
	int more = 1;

	while (more > 0) {
		if (r->left < UNTAR_BLOCK)
			return error_set(err, EBADMSG, "the map of a sparse file is damaged");
		more = read_block(r, &block, err);
		if (more < 0)
			break;
		r->left -= UNTAR_BLOCK;
		more = untar_map_add_text(map, block, err);
	}
	return more;
}

static int read_pieces(struct untar_reader *r, struct member *m, struct error *err)
{
	const struct untar_sparse *s = &r->parser.found;
	struct untar_map map = { .pieces = r->in.pieces, .size = s->size };
	int n;

	if (s->kind == UNTAR_SPARSE_TABLE)
		n = read_table(r, &map, err);
	else if (s->kind == UNTAR_SPARSE_TEXT)
		n = read_text(r, &map, err);
	else
		n = untar_map_add_records(&map, s->records, s->n_records, err);
	r->size = r->left;
	m->size = s->size;
	return n < 0 ? n : untar_map_finish(&map, r->left, err);
}

static int begin_member(struct untar_reader *r, struct member *m, struct error *err)
{
	int n = 0;

	r->left = r->size = m->size;
	r->padding = get_padding(m->size);
	if (m->sparse)
		n = read_pieces(r, m, err);
	else
		prefetch_next(r);
	return n < 0 ? n : 1;
}

int untar_reader_next(struct untar_reader *r, struct member *m, struct error *err)
{
	enum untar_step step = UNTAR_STEP_NEXT;
	int n = skip(r, err);

	if (n < 0)
		return n;
	r->n_raw = 0;
	while (n == 0 && (step == UNTAR_STEP_MORE || step == UNTAR_STEP_NEXT)) {
		if (step == UNTAR_STEP_NEXT)
			r->n_raw = 0;
		n = take_header(r, m, &step, err);
	}
	if (n < 0)
		return n;
	switch (step) {
	case UNTAR_STEP_MEMBER:
		return begin_member(r, m, err);
	case UNTAR_STEP_ZERO:
		return check_end(r, err);
	case UNTAR_STEP_NO_END:
		return 0;
	case UNTAR_STEP_FOREIGN:
		return UNTAR_HAND_OVER;
	case UNTAR_STEP_SLASH:
		return error_set(err, EINVAL,
				 "%s ends in a slash, as the name of a directory, and has data",
				 m->path);
	case UNTAR_STEP_STAR:
		return untar_reader_refuse_star((const char *)r->header, err);
	default:
		return error_set(err, EBADMSG, "damaged tar archive");
	}
}

int untar_reader_read(struct untar_reader *r, struct piece *p, struct error *err)
{
	int more;

	if (r->left == 0)
		return 0;
	more = refill_data(r, r->left, true, err);
	if (more == 0)
		return refuse_cut(err);
	if (more < 0)
		return more;
	*p = r->piece;
	if (p->size > r->left)
		p->size = (size_t)r->left;
	p->offset = r->size - r->left;
	r->left -= p->size;
	advance(r, p->size);
	return 1;
}

size_t untar_reader_get_left(const struct untar_reader *r)
{
	return r->piece.size;
}

void untar_reader_forget(struct untar_reader *r)
{
	r->piece = (struct piece){ 0 };
}

int untar_reader_leave(struct untar_reader *r, struct piece *p, struct error *err)
{
	int more;

	r->leaves = true;
	if (p->offset > 0 || r->left == 0 || r->piece.size > 0 || !r->in.take_back ||
	    !r->in.take_back(r->in.arg, p->size, r->size))
		return 0;
	r->left = r->size;
	more = untar_reader_read(r, p, err);
	return more < 0 ? more : 0;
}

/* ---- the rest, as a stream ---- */

struct rest_stream {
	struct stream stream;
	struct untar_reader *reader;
	bool raw_given;
};

static ssize_t rest_next(struct stream *s, const void **datap, struct error *err)
{
	struct rest_stream *rest = (struct rest_stream *)s;
	struct untar_reader *r = rest->reader;
	ssize_t n;
	int more;

	if (!rest->raw_given) {
		rest->raw_given = true;
		*datap = r->raw;
		return (ssize_t)r->n_raw;
	}
	more = refill(r, err);
	if (more <= 0)
		return more;
	*datap = r->piece.data;
	n = (ssize_t)r->piece.size;
	advance(r, r->piece.size);
	return n;
}

static void rest_close(struct stream *s)
{
	free(s);
}

int untar_reader_hand_over(struct untar_reader *r, struct stream **sp, struct error *err)
{
	static const struct stream_ops ops = { .next = rest_next, .close = rest_close };
	struct rest_stream *rest = calloc(1, sizeof(*rest));

	if (!rest)
		return error_set(err, ENOMEM, "out of memory");
	rest->stream.ops = &ops;
	rest->reader = r;
	*sp = &rest->stream;
	return 0;
}
