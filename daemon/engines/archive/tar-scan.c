/*
 * The reader of extraction (untar-reader.h) reads the headers, so all of its checks hold. It gets
 * the file in pieces; what it does not need, the content of members, is passed over without a read.
 *
 * A piece is a page after content was passed over, as the next header is all that is needed there.
 * It doubles as long as nothing is passed over: small members lie in pieces that were read already.
 *
 * Where a read takes long, headers are read ahead by threads (tar-ahead.h), and taken from there
 * where the walk comes to them.
 */
#include "daemon/engines/archive/tar-scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/archive/tar-ahead.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/copy/stage-io.h"

enum {
	SCAN_MIN_PIECE = 4096,
	SCAN_MAX_PIECE = 256 << 10,
	SCAN_LAST_SIZE = 160,
	SCAN_SLOW_NS = 50000, /* a read from memory takes some 2000 */
	SCAN_SAMPLE = 4,      /* one of so many reads is timed */
	SCAN_MIN_SLOW = 8,    /* so many in a row: one alone had to wait for a CPU */
	SCAN_N_MEAN = 16,     /* members */
	SCAN_START_MEAN = 64 << 10,
};

#define SCAN_MAX_MEAN (UINT64_C(1) << 40)

struct scanner {
	const struct tar_scan *scan;
	uint64_t at;		 /* of what comes next */
	uint64_t told;		 /* so much of the file is progress */
	uint64_t n_ahead;	 /* reads of the threads that are progress */
	uint64_t left;		 /* bytes from there that are not needed */
	size_t size;		 /* of the next piece */
	struct tar_ahead *ahead; /* NULL: not, or not yet */
	bool tried;		 /* … and not again */
	uint64_t n_reads;	 /* by the walk */
	unsigned n_slow;	 /* of those that were timed last, in a row */
	uint64_t mean;		 /* bytes from one header to the next, lately */
	uint64_t n_members;
	char last[SCAN_LAST_SIZE]; /* member that was begun last, cut */
	unsigned char buf[SCAN_MAX_PIECE];
};

static void scan_leave(void *arg, uint64_t n, bool needed)
{
	((struct scanner *)arg)->left = n;
}

static void go_on(struct scanner *s, uint64_t n)
{
	s->at += n;
	stage_io_add_unread_to(s->scan->io, &s->told, s->at, s->scan->size);
}

/* Not more than there is: a member whose size lies ends where the file does. */
static int pass_over(struct scanner *s, struct piece *p)
{
	uint64_t n = s->scan->size - s->at < s->left ? s->scan->size - s->at : s->left;

	*p = (struct piece){ .size = n };
	go_on(s, n);
	s->left = 0;
	s->size = SCAN_MIN_PIECE;
	return n > 0;
}

static uint64_t get_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* The walk's own. */
static int read_piece(struct scanner *s, struct piece *p, struct error *err)
{
	bool is_timed = s->n_reads++ % SCAN_SAMPLE == 0;
	uint64_t begin = is_timed ? get_ns() : 0;
	size_t size = s->size;
	ssize_t n;

	if (size > s->scan->size - s->at)
		size = (size_t)(s->scan->size - s->at);
	do
		n = pread(s->scan->fd, s->buf, size, (off_t)s->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read the archive");
	if (is_timed)
		s->n_slow = get_ns() - begin >= SCAN_SLOW_NS ? s->n_slow + 1 : 0;
	*p = (struct piece){ .data = s->buf, .size = (size_t)n };
	go_on(s, (uint64_t)n);
	if (s->size < SCAN_MAX_PIECE)
		s->size *= 2;
	return n > 0;
}

/* ---- ahead ---- */

static void start_ahead(struct scanner *s)
{
	const struct tar_scan *scan = s->scan;
	const struct tar_ahead_options options = {
		.fd = scan->fd,
		.size = scan->size,
		.segment_size = scan->segment_size,
		.n_threads = scan->n_readers,
	};
	bool is_slow = s->n_slow >= SCAN_MIN_SLOW;

	if (s->tried || scan->n_readers < 2 || (!is_slow && !scan->segment_size))
		return;
	s->tried = true;
	s->ahead = tar_ahead_new(&options, s->at, s->mean);
}

/* The walk waits for threads, which may read for a long time: each read brings a header. Threads
 * that hang bring nothing, which is no progress. */
static void tell_reads_ahead(struct scanner *s)
{
	uint64_t n = tar_ahead_count_reads(s->ahead);

	stage_io_add_unread_to(s->scan->io, &s->told, s->told + (n - s->n_ahead) * UNTAR_BLOCK,
			       s->scan->size);
	s->n_ahead = n;
}

/* 1: a piece, 0: that place is not known, -ECANCELED. */
static int take_ahead(struct scanner *s, struct piece *p, struct error *err)
{
	const unsigned char *data = NULL;
	ssize_t n = -EAGAIN;
	int r = 0;

	if (!s->ahead)
		return 0;
	while (r == 0) {
		n = tar_ahead_get(s->ahead, s->at, s->mean, &data);
		if (n != -EAGAIN)
			break;
		tell_reads_ahead(s);
		r = stage_io_check(s->scan->io, err);
	}
	if (n == 0 && tar_ahead_is_useless(s->ahead))
		tar_ahead_free(steal_ptr(s->ahead));
	if (n <= 0)
		return r;
	*p = (struct piece){ .data = data, .size = (size_t)n };
	go_on(s, (uint64_t)n);
	s->size = SCAN_MIN_PIECE;
	return 1;
}

static int scan_next(void *arg, struct piece *p, struct error *err)
{
	struct scanner *s = arg;
	int r = stage_io_check(s->scan->io, err);

	if (r < 0)
		return r;
	if (s->left > 0)
		return pass_over(s, p);
	start_ahead(s);
	r = take_ahead(s, p, err);
	return r != 0 ? r : read_piece(s, p, err);
}

/* The mean of the last members, of which each counts less the longer ago it was. */
static void note_distance(struct scanner *s, const struct member *m)
{
	uint64_t n = m->size < SCAN_MAX_MEAN ? m->size + UNTAR_BLOCK : SCAN_MAX_MEAN;

	s->mean = (s->mean * (SCAN_N_MEAN - 1) + n) / SCAN_N_MEAN;
}

static int refuse_foreign(const struct scanner *s, struct error *err)
{
	error_set(err, EOPNOTSUPP,
		  "the archive can't be mounted: after %s it has a sparse file, a device, or a "
		  "member "
		  "in a dialect that only extraction reads",
		  *s->last ? s->last : "its beginning");
	return error_set_hint(err, -EOPNOTSUPP, "method=extract unpacks it");
}

static int add_member(struct scanner *s, struct archive_index *x, struct untar_reader *reader,
		      const struct member *m, struct error *err)
{
	uint64_t start = s->at - untar_reader_get_left(reader);
	size_t n = strnlen(m->path, SCAN_LAST_SIZE - 1);
	int r;

	s->n_members++;
	memcpy(s->last, m->path, n);
	s->last[n] = '\0';
	note_distance(s, m);
	stage_io_add_unread(s->scan->io, 0, m->type != MEMBER_DIR);
	r = archive_index_add(x, m, start, err);
	if (r == 0 && s->scan->has_member)
		r = s->scan->has_member(s->scan->arg, m, start, err);
	return r;
}

static int add_members(struct scanner *s, struct archive_index *x, struct untar_reader *reader,
		       struct error *err)
{
	struct member m;
	int r;

	while ((r = untar_reader_next(reader, &m, err)) == 1) {
		r = add_member(s, x, reader, &m, err);
		if (r < 0)
			break;
	}
	if (r == UNTAR_HAND_OVER)
		return refuse_foreign(s, err);
	if (r < 0)
		return damage_add_member(err, r, s->n_members ? s->last : NULL);
	if (s->n_members == 0) {
		error_set(err, EINVAL, "the archive is empty");
		return error_set_hint(err, -EINVAL,
				      "put files into it, or method=copy stages it as it is");
	}
	return 0;
}

int tar_scan(struct archive_index *x, const struct tar_scan *scan, struct error *err)
{
	_cleanup_(untar_reader_freep) struct untar_reader *reader = NULL;
	_cleanup_(freep) struct scanner *s = calloc(1, sizeof(*s));
	struct piece_source source = {
		.next = scan_next,
		.arg = s,
		.leave = scan_leave,
		.odd_end = scan->odd_end,
	};
	int r;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	s->scan = scan;
	s->size = SCAN_MIN_PIECE;
	s->mean = SCAN_START_MEAN;
	r = untar_reader_new(&reader, &source, err);
	if (r == 0)
		r = add_members(s, x, reader, err);
	tar_ahead_free(s->ahead);
	return r;
}
