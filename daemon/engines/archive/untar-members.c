/*
 * libarchive lends its pieces. They are copied into blocks of our own pool, so that writers may
 * keep them. Small pieces share a block: a file with holes may have a million pieces of one byte,
 * and with a block for each, every sixteenth piece had to wait for the writers.
 */
#include "daemon/engines/archive/untar-members.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/stream.h"

#define COPY_BLOCKS 16
#define COPY_SIZE (256u << 10)
#define COPY_BLOCK_SIZE (COPY_SIZE + MAGIC_SIZE)

struct members {
	struct members_hook hook;
	struct stream *in;
	struct piece_source source; /* used if in is NULL */
	struct block *at_hand;	    /* the present block of in */
	struct untar_reader *reader;
	struct decode *decode;
	/* for data that libarchive lends: the pool, the rest that is not in a block yet, and the
	 * last block */
	struct block_pool *pool;
	struct block *copy;
	struct piece lent;
};

static void before_wait(struct members *m)
{
	if (m->hook.before_wait)
		m->hook.before_wait(m->hook.arg);
}

static int next_piece(void *arg, struct piece *p, struct error *err)
{
	struct members *m = arg;
	int r;

	block_put(steal_ptr(m->at_hand));
	if (!m->in)
		return m->source.next(m->source.arg, p, err);
	if (!stream_is_ready(m->in))
		before_wait(m);
	r = stream_next_block(m->in, &m->at_hand, err);
	if (r > 0)
		*p = (struct piece){ m->at_hand, m->at_hand->data, m->at_hand->size, 0 };
	return r;
}

static void leave(void *arg, uint64_t n, bool needed)
{
	struct members *m = arg;

	stream_leave(m->in, n, needed);
}

static bool take_back(void *arg, size_t back, uint64_t n)
{
	struct members *m = arg;

	return stream_take_back(m->in, back, n);
}

static int members_new(struct members **mp, const struct members_hook *hook, struct error *err)
{
	struct members *m = calloc(1, sizeof(*m));

	if (!m)
		return error_set(err, ENOMEM, "out of memory");
	m->hook = *hook;
	*mp = m;
	return 0;
}

static int open_reader(struct members *m, struct error *err)
{
	struct piece_source source = { next_piece, m, m->in ? leave : NULL,
				       m->in ? take_back : NULL, m->hook.odd_end };

	return untar_reader_new(&m->reader, &source, err);
}

int members_open_tar(struct members **mp, struct stream *in, const struct members_hook *hook,
		     struct error *err)
{
	_cleanup_(members_closep) struct members *m = NULL;
	int r = members_new(&m, hook, err);

	if (r < 0)
		return r;
	m->in = in;
	r = open_reader(m, err);
	if (r < 0) {
		m->in = NULL;
		return r;
	}
	*mp = steal_ptr(m);
	return 0;
}

int members_open_pieces(struct members **mp, const struct piece_source *in,
			const struct members_hook *hook, struct error *err)
{
	_cleanup_(members_closep) struct members *m = NULL;
	int r = members_new(&m, hook, err);

	if (r == 0)
		r = open_reader(m, err);
	if (r < 0)
		return r;
	m->source = *in;
	*mp = steal_ptr(m);
	return 0;
}

static int take_decode(struct members *m, struct decode *d, struct error *err)
{
	if (block_pool_new(&m->pool, COPY_BLOCKS, COPY_BLOCK_SIZE) < 0)
		return error_set(err, ENOMEM, "out of memory");
	m->decode = d;
	return 0;
}

int members_open_decode(struct members **mp, struct decode *d, const struct members_hook *hook,
			struct error *err)
{
	_cleanup_(members_closep) struct members *m = NULL;
	int r = members_new(&m, hook, err);

	if (r == 0)
		r = take_decode(m, d, err);
	if (r == 0)
		*mp = steal_ptr(m);
	return r;
}

void members_close(struct members *m)
{
	if (!m)
		return;
	decode_close(m->decode); /* must be closed before its source */
	untar_reader_free(m->reader);
	block_put(m->at_hand);
	block_put(m->copy);
	block_pool_free(m->pool);
	stream_close(m->in);
	free(m);
}

/* Lets libarchive continue where our reader stops. */
static int hand_over(struct members *m, struct error *err)
{
	_cleanup_(stream_closep) struct stream *rest = NULL;
	struct decode *d;
	int r;

	r = untar_reader_hand_over(m->reader, &rest, err);
	if (r == 0)
		r = decode_open_tar(&d, rest, err);
	if (r < 0)
		return r;
	steal_ptr(rest);
	r = take_decode(m, d, err);
	if (r < 0)
		decode_close(d);
	return r;
}

int members_next(struct members *m, struct member *member, struct error *err)
{
	int r;

	if (!m->decode) {
		r = untar_reader_next(m->reader, member, err);
		if (r != UNTAR_HAND_OVER)
			return r;
		r = hand_over(m, err);
		if (r < 0)
			return r;
	}
	m->lent.size = 0;
	r = decode_next(m->decode, member, err);
	return r == 0 ? decode_finish(m->decode, m->hook.odd_end, err) : r;
}

/* Ensures that the present block has room for n bytes, or takes a new one. */
static int get_room(struct members *m, size_t n, struct error *err)
{
	int r = 0;

	if (!m->copy || n > COPY_BLOCK_SIZE - m->copy->size) {
		block_put(steal_ptr(m->copy));
		before_wait(m);
		r = block_pool_take(m->pool, &m->copy);
	}
	return r < 0 ? error_errno(err, -r, "read") : 0;
}

/* Gets bytes that libarchive lends, if there are none left. Returns 1, 0 at the end of the data, or
 * -errno. */
static int borrow(struct members *m, struct error *err)
{
	struct piece *lent = &m->lent;
	int r = 1;

	while (r > 0 && lent->size == 0)
		r = decode_read(m->decode, (const void **)&lent->data, &lent->size, &lent->offset,
				err);
	return r;
}

/* Copies n of the lent bytes to the end of the present block. */
static void copy_lent(struct members *m, size_t n)
{
	struct block *b = m->copy;

	memcpy(b->buf + b->size, m->lent.data, n);
	b->size += n;
	m->lent.data += n;
	m->lent.size -= n;
	m->lent.offset += n;
}

/* Makes a piece end at a multiple of MAGIC_SIZE in the member's data, if more data follows
 * directly. Its block must have room for this, and the piece must be the last one in it. */
static int complete(struct members *m, struct piece *p, struct error *err)
{
	uint64_t end;
	size_t n;
	int r = 1;

	while ((end = p->offset + p->size) % MAGIC_SIZE > 0 && (r = borrow(m, err)) > 0 &&
	       m->lent.offset == end) {
		n = MAGIC_SIZE - (size_t)(end % MAGIC_SIZE);
		if (n > m->lent.size)
			n = m->lent.size;
		copy_lent(m, n);
		p->size += n;
	}
	return r < 0 ? r : 1;
}

/* The piece may begin with an archive in the archive, which is recognised by MAGIC_SIZE bytes. Such
 * an archive has members at multiples of MAGIC_SIZE, which may be archives, too. */
static int read_copy(struct members *m, struct piece *p, struct error *err)
{
	size_t n;
	int r = borrow(m, err);

	if (r <= 0)
		return r;
	n = m->lent.size < COPY_SIZE ? m->lent.size : COPY_SIZE;
	r = get_room(m, n + MAGIC_SIZE, err);
	if (r < 0)
		return r;
	*p = (struct piece){ m->copy, m->copy->buf + m->copy->size, n, m->lent.offset };
	copy_lent(m, n);
	return complete(m, p, err);
}

int members_read(struct members *m, struct piece *p, struct error *err)
{
	return m->decode ? read_copy(m, p, err) : untar_reader_read(m->reader, p, err);
}

int members_leave(struct members *m, struct piece *p, struct error *err)
{
	return m->decode ? 0 : untar_reader_leave(m->reader, p, err);
}
