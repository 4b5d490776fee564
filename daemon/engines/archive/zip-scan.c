/*
 * If the header before a member contradicts the list at the end, libarchive uses the header. No
 * program makes such zips. They are not mounted, but extraction reads them.
 */
#include "daemon/engines/archive/zip-scan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/le.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/zip-names.h"
#include "daemon/engines/copy/stage-io.h"

#define HEADER_SIZE 30
#define HEADER_LARGE UINT32_MAX /* the real number is in an extra field */
#define SCAN_MAX_RATIO 1032	/* two bits can encode 258 bytes in deflate */
#define SCAN_MAX_SIZE (UINT64_C(1) << 48)
#define SCAN_LAST_SIZE 160
#define SCAN_LIST_PART 4 /* for progress: the list is read twice, and is a part of the zip */

struct scanner {
	struct stage_io io; /* the stage_io of the reader */
	const struct zip_scan *scan;
	uint64_t told; /* bytes of the file that were counted as progress */
	struct decode *decode;
	uint64_t n_members;
	char last[SCAN_LAST_SIZE]; /* the member that was begun last; may be cut */
};

/* ---- progress ---- */

static bool io_is_cancelled(const struct stage_io *io)
{
	return stage_io_is_cancelled(((const struct scanner *)io)->scan->io);
}

static int io_get_reason(const struct stage_io *io, struct error *err)
{
	return stage_io_check(((const struct scanner *)io)->scan->io, err);
}

/* Reports progress until the first member. */
static void io_add_progress(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	struct scanner *s = (struct scanner *)io;

	if (s->n_members == 0)
		stage_io_add_unread_to(s->scan->io, &s->told, s->told + bytes / SCAN_LIST_PART,
				       s->scan->size);
}

static const struct stage_io_ops io_ops = {
	.is_cancelled = io_is_cancelled,
	.get_reason = io_get_reason,
	.add_progress = io_add_progress,
};

/* ---- members ---- */

/* Refuses the member s->last. what: why only extraction can read it. */
static int refuse_foreign(const struct scanner *s, const char *what, struct error *err)
{
	error_set(err, EOPNOTSUPP, "the zip can't be mounted: %s %s", s->last, what);
	return error_set_hint(err, -EOPNOTSUPP, "method=extract unpacks it");
}

/* Refuses a compression method, with the message of extraction if that does not know it either. */
static int refuse_method(const struct scanner *s, struct error *err)
{
	const void *data;
	uint64_t offset;
	size_t size;
	int r;

	r = decode_read(s->decode, &data, &size, &offset, err);
	return r < 0 ? r : refuse_foreign(s, "is neither stored nor deflated", err);
}

static bool agrees(uint32_t in_header, uint64_t in_list)
{
	return in_header == 0 || in_header == HEADER_LARGE || in_header == in_list;
}

/* The list is there, so the zip is not cut off. */
static int refuse_place(const struct member *m, struct error *err)
{
	return error_set(err, EBADMSG,
			 "the " DAMAGE_ZIP_LIST " says that %s lies after the end of the zip",
			 m->path);
}

/* Compares the member's header with the central directory. Returns 1 if they agree, 0 if not, or
 * -errno. */
static int check_header(const struct scanner *s, const struct member *m, struct error *err)
{
	const struct zip_entry *e = m->entry;
	unsigned char h[HEADER_SIZE];
	ssize_t n;

	n = fd_pread_all(s->scan->fd, h, sizeof(h), e->at);
	if (n < 0)
		return error_errno(err, (int)-n, "read the archive");
	if (n < (ssize_t)sizeof(h))
		return refuse_place(m, err);
	return memcmp(h, "PK\3\4", 4) == 0 && (unsigned)(h[8] | h[9] << 8) == e->method &&
	       (le_u32(h + 14) == 0 || le_u32(h + 14) == e->crc) &&
	       agrees(le_u32(h + 18), e->packed) && agrees(le_u32(h + 22), e->size) &&
	       m->size == e->size;
}

static int refuse_sizes(const struct member *m, struct error *err)
{
	return error_set(err, EBADMSG,
			 "the " DAMAGE_ZIP_LIST " says that %s has %llu bytes, and %llu when "
			 "packed, which can't be",
			 m->path, (unsigned long long)m->size,
			 (unsigned long long)m->entry->packed);
}

/* Refuses sizes that the content cannot have. */
static int check_sizes(const struct scanner *s, const struct member *m, struct error *err)
{
	const struct zip_entry *e = m->entry;

	if (m->start > s->scan->size || e->packed > s->scan->size - m->start)
		return refuse_place(m, err);
	if (m->size == 0 ? e->crc != 0 : e->packed == 0)
		return refuse_sizes(m, err);
	if (e->method == ZIP_STORED && e->packed != m->size)
		return refuse_sizes(m, err);
	if (e->method == ZIP_DEFLATED && m->size / SCAN_MAX_RATIO > e->packed)
		return refuse_sizes(m, err);
	if (m->size > SCAN_MAX_SIZE)
		return refuse_foreign(s, "is too large", err);
	return 0;
}

static int check_file(const struct scanner *s, const struct member *m, struct error *err)
{
	const struct zip_entry *e = m->entry;
	int r;

	if (!e)
		return error_set(err, EBADMSG, "no sound list of its files");
	if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED && (e->size > 0 || e->crc != 0))
		return refuse_method(s, err);
	r = check_header(s, m, err);
	if (r == 0)
		return refuse_foreign(s, "has a header that contradicts the list", err);
	return r < 0 ? r : check_sizes(s, m, err);
}

static int add_member(struct scanner *s, struct archive_index *x, const struct member *m,
		      struct error *err)
{
	size_t n = strnlen(m->path, SCAN_LAST_SIZE - 1);
	int r;

	s->n_members++;
	memcpy(s->last, m->path, n);
	s->last[n] = '\0';
	r = stage_io_check(s->scan->io, err);
	if (r == 0 && m->type == MEMBER_FILE)
		r = check_file(s, m, err);
	if (r < 0)
		return r;
	stage_io_add_unread_to(s->scan->io, &s->told,
			       m->entry ? m->entry->at + m->entry->packed : 0, s->scan->size);
	stage_io_add_unread(s->scan->io, 0, m->type != MEMBER_DIR);
	return archive_index_add(x, m, m->start, err);
}

int zip_scan(struct archive_index *x, const struct zip_scan *scan, struct error *err)
{
	_cleanup_(decode_closep) struct decode *decode = NULL;
	struct scanner s = { .io.ops = &io_ops, .scan = scan };
	struct member m;
	int r;

	r = decode_open_zip_file(&decode, &s.io, scan->fd, err);
	if (r < 0)
		return r;
	s.decode = decode;
	while ((r = decode_next(decode, &m, err)) == 1) {
		r = add_member(&s, x, &m, err);
		if (r < 0)
			break;
	}
	if (r < 0)
		return damage_add_member(err, r, s.n_members ? s.last : NULL);
	if (s.n_members == 0) {
		error_set(err, EINVAL, "the archive is empty");
		return error_set_hint(err, -EINVAL,
				      "put files into it, or method=copy stages it as it is");
	}
	return 0;
}
