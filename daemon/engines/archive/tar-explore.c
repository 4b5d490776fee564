#include "daemon/engines/archive/tar-explore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/buffer.h"
#include "daemon/engines/archive/cached.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-parser.h"

enum {
	EXPLORE_PAGE = 4096,	       /* size of a read for one header */
	EXPLORE_FAST_PIECE = 16 << 10, /* size of a read to search for one, if reads take no time */
	EXPLORE_SMALL = 64 << 10, /* headers with smaller distances are read with what is between */
	EXPLORE_MIN_SEARCH = 1 << 20,
	EXPLORE_PATH_SIZE = 32,
};

void reader_init(struct reader *r, const struct tar_ahead_options *options)
{
	char path[EXPLORE_PATH_SIZE];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", options->fd);
	if (options->is_fast)
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	*r = (struct reader){ .fd = fd < 0 ? options->fd : fd, .buf = buffer_new(EXPLORE_PIECE) };
	if (fd >= 0)
		posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* a search must not read ahead */
}

void reader_deinit(struct reader *r, const struct tar_ahead_options *options)
{
	if (r->fd != options->fd)
		close(r->fd);
	free(r->buf);
}

/* Only this thread writes the number. */
static void count_read(struct segment *s)
{
	uint64_t n = atomic_load_explicit(&s->n_reads, memory_order_relaxed);

	atomic_store_explicit(&s->n_reads, n + 1, memory_order_relaxed);
}

/* only_cached: the file system is not asked for content that is not in memory. */
static bool fill(struct explorer *e, size_t want, bool only_cached)
{
	const struct tar_ahead_options *o = &e->common->options;
	uint64_t begin;
	ssize_t n;

	if (atomic_load(&e->common->at) == UINT64_MAX)
		return false;
	if (o->is_fast && read_timer_is_slow(&e->reader->timer)) {
		atomic_store(&e->common->is_slow, true);
		return false;
	}
	if (want > o->size - e->at)
		want = (size_t)(o->size - e->at);
	e->buf_at = e->at;
	e->buf_size = 0;
	if (only_cached) {
		n = cached_read(e->reader->fd, e->reader->buf, want, e->at);
		e->buf_size = n > 0 ? (size_t)n : 0;
		e->is_blind = e->searched > 0 && e->buf_size < UNTAR_BLOCK;
		return e->buf_size >= UNTAR_BLOCK;
	}
	begin = read_timer_begin(&e->reader->timer);
	do
		n = pread(e->reader->fd, e->reader->buf, want, (off_t)e->at);
	while (n < 0 && errno == EINTR);
	read_timer_end(&e->reader->timer, begin);
	count_read(e->segment);
	if (!o->is_fast)
		atomic_fetch_add(&e->common->n_reads, n > 0);
	e->buf_size = n > 0 ? (size_t)n : 0;
	return e->buf_size >= UNTAR_BLOCK;
}

static size_t get_read_size(const struct explorer *e)
{
	bool searches = e->searched > 0;

	if (!e->common->options.is_fast)
		return searches || atomic_load(&e->common->mean) < EXPLORE_SMALL ? EXPLORE_PIECE
										 : EXPLORE_PAGE;
	if (searches)
		return EXPLORE_FAST_PIECE;
	return UNTAR_BLOCK * (e->n_usual > e->n_headers ? e->n_usual - e->n_headers : 1);
}

/* Returns the block at e->at. NULL: the file ends or cannot be read; the walk will get the same
 * result. */
static const unsigned char *get_block(struct explorer *e, bool only_cached)
{
	if (e->common->options.size - e->at < UNTAR_BLOCK)
		return NULL;
	if ((e->at < e->buf_at || e->at - e->buf_at + UNTAR_BLOCK > e->buf_size) &&
	    !fill(e, get_read_size(e), only_cached))
		return NULL;
	return e->reader->buf + (e->at - e->buf_at);
}

static bool keep_block(struct explorer *e, const unsigned char *block)
{
	struct segment *s = e->segment;
	struct kept_piece *last = s->n_pieces ? &s->pieces[s->n_pieces - 1] : NULL;

	if (s->n_data == e->common->max_data)
		return false;
	memcpy(s->data + s->n_data, block, UNTAR_BLOCK);
	if (last && last->at + last->size == e->at)
		last->size += UNTAR_BLOCK;
	else
		s->pieces[s->n_pieces++] = (struct kept_piece){ e->at, (uint32_t)s->n_data,
								UNTAR_BLOCK };
	s->n_data += UNTAR_BLOCK;
	e->at += UNTAR_BLOCK;
	e->n_headers++;
	return true;
}

/* Keeps the body of a header: a long name, or records. */
static bool keep_body(struct explorer *e, uint64_t size)
{
	const unsigned char *block;
	bool ok = true;

	for (uint64_t done = 0; done < size && ok; done += UNTAR_BLOCK) {
		block = get_block(e, false);
		ok = block && keep_block(e, block);
	}
	return ok;
}

static bool is_over(const struct explorer *e)
{
	return e->at >= e->segment->end || atomic_load(&e->common->at) >= e->segment->end;
}

/* Goes to the block after a member's headers: the next header, which is in its content if this is
 * an archive. Where reads take no time, content that is not in memory is left to the walk, which
 * looks only into members whose names promise an archive. */
static void pass_member(struct explorer *e, uint64_t size)
{
	uint64_t end = e->at + (size + UNTAR_BLOCK - 1) / UNTAR_BLOCK * UNTAR_BLOCK;
	bool looks = e->common->options.nested && size >= UNTAR_BLOCK;
	const unsigned char *block = looks ? get_block(e, e->common->options.is_fast) : NULL;
	struct untar_header h = { 0 };

	e->n_usual = e->n_headers < EXPLORE_PAGE / UNTAR_BLOCK ? e->n_headers
							       : EXPLORE_PAGE / UNTAR_BLOCK;
	e->n_headers = 0;
	if (block && untar_header_read(block, &h) >= UNTAR_MEMBER)
		e->inner_end = end;
	else
		e->at = end;
}

/* Examines a block. Returns false at the end of the segment, or if no header can be found. */
static bool explore_block(struct explorer *e)
{
	struct untar_header h = { 0 };
	bool searches = e->common->options.is_fast && e->searched > 0;
	const unsigned char *block = get_block(e, searches);
	enum untar_kind kind;
	uint64_t left;

	if (!block)
		return false;
	if (e->searched == 0 && e->common->options.is_fast)
		kind = untar_header_guess(block, &h.size);
	else
		kind = untar_header_read(block, &h);
	left = e->common->options.size - e->at - UNTAR_BLOCK;
	if (kind < UNTAR_MEMBER && e->at < e->inner_end) {
		e->at = e->inner_end;
		return true;
	}
	if (kind < UNTAR_MEMBER || h.size > left) {
		e->searched += UNTAR_BLOCK;
		e->at += UNTAR_BLOCK;
		e->n_headers = 0;
		return e->searched <= EXPLORE_MIN_SEARCH + 4 * atomic_load(&e->common->mean);
	}
	e->searched = 0;
	if (!keep_block(e, block))
		return false;
	if (kind != UNTAR_MEMBER && kind != UNTAR_OLD_SPARSE && h.size <= UNTAR_MAX_PAX)
		return keep_body(e, h.size);
	pass_member(e, h.size);
	return true;
}

void explorer_follow(struct explorer *e)
{
	while (!is_over(e) && explore_block(e))
		;
}
