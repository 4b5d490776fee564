/*
 * The reader of extraction (untar-reader.h) reads the headers, so all of its checks hold. It gets
 * the file in pieces; what it does not need, the content of members, is passed over without a read.
 *
 * A piece is a page after content was passed over, as the next header is all that is needed there.
 * It doubles as long as nothing is passed over: small members lie in pieces that were read already.
 */
#include "daemon/engines/archive/tar-scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/untar-reader.h"

enum {
	SCAN_MIN_PIECE = 4096,
	SCAN_MAX_PIECE = 256 << 10,
	SCAN_LAST_SIZE = 160,
};

struct scanner {
	const struct tar_scan *scan;
	uint64_t at;   /* of what comes next */
	uint64_t left; /* bytes from there that are not needed */
	size_t size;   /* of the next piece */
	uint64_t from; /* where buf lies in the file */
	uint64_t n_members;
	char last[SCAN_LAST_SIZE]; /* member that was begun last, cut */
	unsigned char buf[SCAN_MAX_PIECE];
};

static void scan_leave(void *arg, uint64_t n, bool needed)
{
	((struct scanner *)arg)->left = n;
}

/* Not more than there is: a member whose size lies ends where the file does. */
static int pass_over(struct scanner *s, struct piece *p)
{
	uint64_t n = s->scan->size - s->at < s->left ? s->scan->size - s->at : s->left;

	*p = (struct piece){ .size = n };
	s->at += n;
	s->left = 0;
	s->size = SCAN_MIN_PIECE;
	return n > 0;
}

static int scan_next(void *arg, struct piece *p, struct error *err)
{
	struct scanner *s = arg;
	size_t size = s->size;
	ssize_t n;

	if (s->scan->is_cancelled && s->scan->is_cancelled(s->scan->arg))
		return error_set(err, ECANCELED, "cancelled");
	if (s->left > 0)
		return pass_over(s, p);
	if (size > s->scan->size - s->at)
		size = (size_t)(s->scan->size - s->at);
	do
		n = pread(s->scan->fd, s->buf, size, (off_t)s->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read the archive");
	*p = (struct piece){ .data = s->buf, .size = (size_t)n };
	s->from = s->at;
	s->at += (uint64_t)n;
	if (s->size < SCAN_MAX_PIECE)
		s->size *= 2;
	return n > 0;
}

/* Where the member's data begins in the file. */
static int find_start(struct scanner *s, struct untar_reader *reader, const struct member *m,
		      uint64_t *startp, struct error *err)
{
	struct piece p;
	int r;

	*startp = 0;
	if (m->size == 0)
		return 0;
	r = untar_reader_read(reader, &p, err);
	if (r < 0)
		return r;
	*startp = s->from + (uint64_t)(p.data - s->buf);
	return 0;
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

/* Damage is in the member that was begun last, or right after it. */
static int say_where(const struct scanner *s, int r, struct error *err)
{
	char how[ERROR_MAX_SIZE / 2];

	if (!err || s->n_members == 0 || (r != -ENODATA && r != -EBADMSG))
		return r;
	snprintf(how, sizeof(how), "%.500s", err->text);
	return error_set(err, -r, "%s, last member %s", how, s->last);
}

static int add_member(struct scanner *s, struct archive_index *x, struct untar_reader *reader,
		      const struct member *m, struct error *err)
{
	size_t n = strnlen(m->path, SCAN_LAST_SIZE - 1);
	uint64_t start;
	int r;

	s->n_members++;
	memcpy(s->last, m->path, n);
	s->last[n] = '\0';
	r = find_start(s, reader, m, &start, err);
	return r < 0 ? r : archive_index_add(x, m, start, err);
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
		return say_where(s, r, err);
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
	r = untar_reader_new(&reader, &source, err);
	return r < 0 ? r : add_members(s, x, reader, err);
}
