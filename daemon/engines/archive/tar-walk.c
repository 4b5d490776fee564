/*
 * The file is passed to the reader in pieces. The content of members, which the reader does not
 * need, is skipped without a read.
 *
 * After a skip, only the next header is needed. If members are large, a piece has one block more
 * than the headers of the last member took: one block or, with records or a long name, some blocks.
 * Otherwise it is a page, and doubles as long as nothing is skipped, because small members are in
 * pieces that were already read.
 *
 * Threads read headers ahead (tar-ahead.h), and the walk takes the headers from there. The threads
 * also find the headers of archives in the archive. If reads are slow, many threads are used. If
 * reads take no time and members are large, a few threads are used, which read little more than
 * the headers.
 */
#include "daemon/engines/archive/tar-walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/buffer.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/memory.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/read-timer.h"
#include "daemon/engines/archive/tar-ahead.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/copy/stage-io.h"

enum {
	WALK_MIN_PIECE = 4096,
	WALK_MAX_PIECE = 256 << 10,
	WALK_LARGE = 32 << 10, /* average size of a large member */
	WALK_FAST = 64,	       /* reads of the walk before threads read headers that take no time */
	WALK_FAST_READERS = 5, /* more are not faster, because the walk checks the headers */
	WALK_N_MEAN = 16,      /* members in the mean */
	WALK_START_MEAN = 64 << 10,
};

#define WALK_MAX_MEAN (UINT64_C(1) << 40)

_Static_assert(sizeof(size_t) >= sizeof(uint64_t), "a piece may be the content of a large member");

struct tar_walk {
	struct tar_walk_options options;
	uint64_t at;		 /* offset of the next bytes */
	uint64_t end;		 /* end of the present archive, which may be in another one */
	uint64_t told;		 /* bytes of the file that were counted as progress */
	uint64_t n_ahead;	 /* reads of the threads that were counted as progress */
	uint64_t left;		 /* bytes from `at` on that are not needed */
	size_t size;		 /* size of the next piece */
	struct tar_ahead *ahead; /* NULL: not used */
	bool tried;		 /* it was used, and is not tried again */
	bool tried_fast;	 /* the same for reads that take no time */
	struct read_timer timer; /* of the walk's own reads */
	unsigned n_fast;	 /* own reads */
	uint64_t mean;		 /* recent mean distance between headers in bytes */
	uint64_t passed;	 /* end of the content that was skipped last */
	uint64_t n_headers;	 /* bytes from there to the content of the last member */
	unsigned char *buf;	 /* of WALK_MAX_PIECE bytes */
};

static void walk_leave(void *arg, uint64_t n, bool needed)
{
	((struct tar_walk *)arg)->left = n;
}

static void go_on(struct tar_walk *w, uint64_t n)
{
	w->at += n;
	stage_io_add_unread_to(w->options.io, &w->told, w->at, w->options.size);
}

static size_t get_first_size(const struct tar_walk *w)
{
	size_t n = (size_t)(w->n_headers < WALK_MIN_PIECE ? w->n_headers : WALK_MIN_PIECE);

	n = (n + UNTAR_BLOCK - 1) / UNTAR_BLOCK * UNTAR_BLOCK + UNTAR_BLOCK;
	if (n < 2 * UNTAR_BLOCK)
		n = 2 * UNTAR_BLOCK;
	return w->mean >= WALK_LARGE && n < WALK_MIN_PIECE ? n : WALK_MIN_PIECE;
}

/* Skips bytes, but not beyond the end of the archive, if a member's size is wrong. */
static int pass_over(struct tar_walk *w, struct piece *p)
{
	uint64_t n = w->end - w->at < w->left ? w->end - w->at : w->left;

	*p = (struct piece){ .size = n };
	go_on(w, n);
	w->left = 0;
	w->passed = w->at;
	w->size = get_first_size(w);
	return n > 0;
}

/* Reads a piece in this thread. */
static int read_piece(struct tar_walk *w, struct piece *p, struct error *err)
{
	uint64_t begin = read_timer_begin(&w->timer);
	size_t size = w->size;
	ssize_t n;

	if (size > w->end - w->at)
		size = (size_t)(w->end - w->at);
	do
		n = pread(w->options.fd, w->buf, size, (off_t)w->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read the archive");
	read_timer_end(&w->timer, begin);
	w->n_fast++;
	*p = (struct piece){ .data = w->buf, .size = (size_t)n };
	go_on(w, (uint64_t)n);
	w->size = w->size < WALK_MAX_PIECE / 2 ? 2 * w->size : WALK_MAX_PIECE;
	return n > 0;
}

/* ---- ahead ---- */

/* The walk reads, too. */
static unsigned count_fast_threads(const struct tar_walk *w)
{
	unsigned n = memory_count_cpus();

	if (n > w->options.n_readers)
		n = w->options.n_readers;
	if (n > WALK_FAST_READERS)
		n = WALK_FAST_READERS;
	return n > 1 ? n - 1 : 1;
}

static void start_threads(struct tar_walk *w, bool is_fast)
{
	const struct tar_walk_options *o = &w->options;
	struct tar_ahead_options options = {
		.fd = o->fd,
		.size = o->size,
		.segment_size = o->segment_size,
		.n_threads = o->n_readers,
		.nested = o->nested,
		.is_fast = is_fast,
	};

	if (is_fast)
		options.n_threads = count_fast_threads(w);
	tar_ahead_free(steal_ptr(w->ahead));
	w->n_ahead = 0;
	w->ahead = tar_ahead_new(&options, w->at, w->mean);
}

/* Returns true if each header needs a read that takes no time. */
static bool has_fast_reads(const struct tar_walk *w)
{
	return w->options.is_fast ||
	       (w->n_fast >= WALK_FAST && w->mean >= WALK_LARGE && memory_count_cpus() > 1);
}

static void start_ahead(struct tar_walk *w)
{
	const struct tar_walk_options *o = &w->options;
	bool is_slow = read_timer_is_slow(&w->timer) || (o->segment_size > 0 && !o->is_fast) ||
		       (w->ahead && tar_ahead_is_slow(w->ahead));

	if (o->n_readers < 2 || w->tried)
		return;
	if (is_slow) {
		w->tried = true;
		start_threads(w, false);
	} else if (!w->tried_fast && has_fast_reads(w)) {
		w->tried_fast = true;
		start_threads(w, true);
	}
}

/* Reports the threads' reads as progress while the walk waits for them, which may take long. A
 * thread that hangs does not read, so this is no progress. */
static void tell_reads_ahead(struct tar_walk *w)
{
	uint64_t n = tar_ahead_count_reads(w->ahead);

	stage_io_add_unread_to(w->options.io, &w->told, w->told + (n - w->n_ahead) * UNTAR_BLOCK,
			       w->options.size);
	w->n_ahead = n;
}

/* Gets bytes that the threads have read, by tar_ahead_get() or tar_ahead_peek(). Returns their
 * number; 0: this place is not known; -ECANCELED. */
static ssize_t get_ahead(struct tar_walk *w, uint64_t at,
			 ssize_t (*get)(struct tar_ahead *, uint64_t, uint64_t,
					const unsigned char **),
			 const unsigned char **datap, struct error *err)
{
	ssize_t n = w->ahead ? -EAGAIN : 0;
	int r = 0;

	while (n == -EAGAIN && r == 0) {
		n = get(w->ahead, at, w->mean, datap);
		if (n != -EAGAIN)
			break;
		tell_reads_ahead(w);
		r = stage_io_check(w->options.io, err);
	}
	return r < 0 ? r : n;
}

/* Takes a piece that the threads have read. It may go beyond the end of an inner archive. Returns
 * 1; 0: this place is not known; -ECANCELED. */
static int take_ahead(struct tar_walk *w, struct piece *p, struct error *err)
{
	const unsigned char *data = NULL;
	ssize_t n = get_ahead(w, w->at, tar_ahead_get, &data, err);

	if (n == 0 && w->ahead && tar_ahead_is_useless(w->ahead))
		tar_ahead_free(steal_ptr(w->ahead));
	if (n <= 0)
		return (int)n;
	if ((uint64_t)n > w->end - w->at)
		n = (ssize_t)(w->end - w->at);
	*p = (struct piece){ .data = data, .size = (size_t)n };
	go_on(w, (uint64_t)n);
	w->size = WALK_MIN_PIECE;
	return 1;
}

static int walk_next(void *arg, struct piece *p, struct error *err)
{
	struct tar_walk *w = arg;
	int r = stage_io_check(w->options.io, err);

	if (r < 0 || w->at == w->end)
		return r;
	if (w->left > 0)
		return pass_over(w, p);
	start_ahead(w);
	r = take_ahead(w, p, err);
	return r != 0 ? r : read_piece(w, p, err);
}

/* ---- the interface ---- */

int tar_walk_new(struct tar_walk **wp, const struct tar_walk_options *options, struct error *err)
{
	struct tar_walk *w = calloc(1, sizeof(*w));

	if (!w)
		return error_set(err, ENOMEM, "out of memory");
	w->buf = buffer_new(WALK_MAX_PIECE);
	if (!w->buf) {
		free(w);
		return error_set(err, ENOMEM, "out of memory");
	}
	w->options = *options;
	w->mean = WALK_START_MEAN;
	tar_walk_go_to(w, 0, options->size);
	*wp = w;
	return 0;
}

void tar_walk_free(struct tar_walk *w)
{
	if (!w)
		return;
	tar_ahead_free(w->ahead);
	free(w->buf);
	free(w);
}

void tar_walk_get_source(struct tar_walk *w, struct piece_source *source)
{
	*source = (struct piece_source){ .next = walk_next, .arg = w, .leave = walk_leave };
}

void tar_walk_go_to(struct tar_walk *w, uint64_t at, uint64_t end)
{
	w->at = at;
	w->end = end;
	w->left = 0;
	w->size = WALK_MIN_PIECE;
}

uint64_t tar_walk_get_place(const struct tar_walk *w)
{
	return w->at;
}

uint64_t tar_walk_get_end(const struct tar_walk *w)
{
	return w->end;
}

ssize_t tar_walk_peek(struct tar_walk *w, uint64_t at, void *buf, size_t size, struct error *err)
{
	const unsigned char *data = NULL;
	ssize_t n;

	if (size > w->end - at)
		size = (size_t)(w->end - at);
	n = get_ahead(w, at, tar_ahead_peek, &data, err);
	if (n < 0)
		return n;
	if (n >= UNTAR_BLOCK && size >= UNTAR_BLOCK &&
	    magic_get_format(data, UNTAR_BLOCK) == FORMAT_TAR) {
		memcpy(buf, data, UNTAR_BLOCK);
		return UNTAR_BLOCK;
	}
	n = fd_pread_all(w->options.fd, buf, size, at);
	return n < 0 ? error_errno(err, (int)-n, "read the archive") : n;
}

/* Updates the mean, in which older members count less. */
void tar_walk_note_member(struct tar_walk *w, uint64_t start, uint64_t size)
{
	uint64_t n = size < WALK_MAX_MEAN ? size + UNTAR_BLOCK : WALK_MAX_MEAN;

	w->mean = (w->mean * (WALK_N_MEAN - 1) + n) / WALK_N_MEAN;
	w->n_headers = start - w->passed;
}
