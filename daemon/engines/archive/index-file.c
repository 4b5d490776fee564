/*
 * It is read and not mapped: a mapped file that somebody cuts off ends its readers by SIGBUS.
 */
#include "daemon/engines/archive/index-file.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/dataset/member-path.h"
#include "common/util/error.h"
#include "common/util/fnv.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/copy/stage-io.h"

#define INDEX_MAGIC "stgidx1\n"
#define NS_PER_SECOND 1000000000

enum {
	INDEX_MAX_TEXT = 2 * MEMBER_PATH_SIZE, /* of a path or link, as a tar's reader has them */
	INDEX_BUFFER = 256 << 10,
	INDEX_SAMPLES = 64, /* headers that are compared, about */
	INDEX_NAME_SIZE = 100,
};

struct file_head {
	char magic[8];
	uint64_t size; /* of the archive */
	int64_t mtime;
	uint64_t mtime_ns;
	uint64_t n_members, bytes, sum; /* of the members, as they lie in the file */
	uint64_t none;
};
_Static_assert(sizeof(struct file_head) == 64, "as the header says");

struct file_member {
	uint64_t start, size;
	int64_t mtime;
	uint32_t mtime_ns;
	uint16_t path_size, link_size;
	uint16_t mode, type, none[2];
};
_Static_assert(sizeof(struct file_member) == 40, "as the header says");

static const struct {
	enum member_type type;
	bool has_link;
} file_types[] = { { MEMBER_FILE, false },
		   { MEMBER_DIR, false },
		   { MEMBER_SYMLINK, true },
		   { MEMBER_HARDLINK, true } };

/* ---- written ---- */

struct index_writer {
	int fd;
	uint64_t at;
	struct file_head head;
	size_t n;
	unsigned char buf[INDEX_BUFFER];
};

int index_writer_new(struct index_writer **wp, int fd, const struct stat *st, struct error *err)
{
	struct index_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return error_set(err, ENOMEM, "no memory to write the index");
	w->fd = fd;
	w->at = sizeof(w->head);
	memcpy(w->head.magic, INDEX_MAGIC, sizeof(w->head.magic));
	w->head.size = (uint64_t)st->st_size;
	w->head.mtime = st->st_mtim.tv_sec;
	w->head.mtime_ns = (uint64_t)st->st_mtim.tv_nsec;
	w->head.sum = FNV_INIT;
	*wp = w;
	return 0;
}

void index_writer_free(struct index_writer *w)
{
	free(w);
}

static int write_at(int fd, const void *data, size_t size, uint64_t at, struct error *err)
{
	ssize_t n;

	for (size_t done = 0; done < size; done += (size_t)n) {
		n = pwrite(fd, (const char *)data + done, size - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n < 0)
			return error_errno(err, errno, "write the index");
	}
	return 0;
}

static int flush(struct index_writer *w, struct error *err)
{
	int r = write_at(w->fd, w->buf, w->n, w->at, err);

	w->at += w->n;
	w->n = 0;
	return r;
}

static void put(struct index_writer *w, const void *data, size_t size)
{
	memcpy(w->buf + w->n, data, size);
	w->n += size;
	w->head.bytes += size;
	w->head.sum = fnv_add(w->head.sum, data, size);
}

int index_writer_add(struct index_writer *w, const struct member *m, uint64_t start,
		     struct error *err)
{
	size_t path_size = strlen(m->path), link_size = m->link ? strlen(m->link) : 0;
	struct file_member fm = {
		.start = htole64(m->type == MEMBER_FILE && m->size > 0 ? start : 0),
		.size = htole64(m->size),
		.mtime = (int64_t)htole64((uint64_t)m->mtime),
		.mtime_ns = htole32((uint32_t)m->mtime_ns),
		.path_size = htole16((uint16_t)path_size),
		.link_size = htole16((uint16_t)link_size),
		.mode = htole16((uint16_t)(m->mode & 07777)),
	};
	int r = 0;

	while (file_types[fm.type].type != m->type)
		fm.type++;
	fm.type = htole16(fm.type);
	if (path_size > INDEX_MAX_TEXT || link_size > INDEX_MAX_TEXT)
		return error_set(err, ENAMETOOLONG, "%.100s… has too long a name", m->path);
	if (sizeof(w->buf) - w->n < sizeof(fm) + path_size + link_size)
		r = flush(w, err);
	if (r < 0)
		return r;
	put(w, &fm, sizeof(fm));
	put(w, m->path, path_size);
	if (link_size > 0)
		put(w, m->link, link_size);
	w->head.n_members++;
	return 0;
}

int index_writer_finish(struct index_writer *w, struct error *err)
{
	struct file_head h = w->head;
	int r = flush(w, err);

	h.size = htole64(h.size);
	h.mtime = (int64_t)htole64((uint64_t)h.mtime);
	h.mtime_ns = htole64(h.mtime_ns);
	h.n_members = htole64(h.n_members);
	h.bytes = htole64(h.bytes);
	h.sum = htole64(h.sum);
	return r < 0 ? r : write_at(w->fd, &h, sizeof(h), 0, err);
}

/* ---- read ---- */

struct loader {
	struct stage_io *io;
	int fd, archive;
	const struct stat *st; /* of the archive */
	uint64_t told;	       /* so much of the archive is progress */
	struct archive_index *index;
	struct file_head head;
	uint64_t at; /* of what comes after buf */
	uint64_t n_left, sum;
	size_t from, n; /* what is in buf */
	char path[INDEX_MAX_TEXT + 1], link[INDEX_MAX_TEXT + 1];
	unsigned char buf[INDEX_BUFFER];
};

static int refuse_damaged(struct error *err)
{
	return error_set(err, EBADMSG, "it is damaged");
}

static int refuse_stale(struct error *err)
{
	return error_set(err, ESTALE, "the archive has changed since it was made");
}

static int load_head(struct loader *l, struct error *err)
{
	struct file_head *h = &l->head;
	struct stat st;
	ssize_t n = pread(l->fd, h, sizeof(*h), 0);

	if (n < 0 || fstat(l->fd, &st) < 0)
		return error_errno(err, errno, "read it");
	if (n < (ssize_t)sizeof(*h) || memcmp(h->magic, INDEX_MAGIC, sizeof(h->magic)) != 0)
		return error_set(err, EBADMSG, "it is no index of this version");
	h->n_members = le64toh(h->n_members);
	h->bytes = le64toh(h->bytes);
	l->n_left = h->bytes;
	if (le64toh(h->size) != (uint64_t)l->st->st_size ||
	    (int64_t)le64toh((uint64_t)h->mtime) != l->st->st_mtim.tv_sec ||
	    le64toh(h->mtime_ns) != (uint64_t)l->st->st_mtim.tv_nsec)
		return refuse_stale(err);
	/* Each has a header in the archive, and is as large here: so much memory it takes at most.
	 */
	if (h->n_members == 0 || h->n_members > (uint64_t)l->st->st_size / UNTAR_BLOCK ||
	    (uint64_t)st.st_size - sizeof(*h) != h->bytes)
		return refuse_damaged(err);
	return 0;
}

/* n_left counts what is in buf as well. */
static void tell(struct loader *l)
{
	uint64_t left = l->n_left > l->n ? l->n_left - l->n : 0; /* it may have grown */
	uint64_t done = l->head.bytes - left, size = (uint64_t)l->st->st_size;
	uint64_t to = (uint64_t)((__uint128_t)size * done / l->head.bytes);

	stage_io_add_unread(l->io, to - l->told, 0);
	l->told = to;
}

/* More bytes, behind those that are there. */
static int fill(struct loader *l, struct error *err)
{
	size_t want = sizeof(l->buf) - l->n;
	int r = stage_io_check(l->io, err);
	ssize_t n;

	if (r < 0)
		return r;
	memmove(l->buf, l->buf + l->from, l->n);
	l->from = 0;
	do
		n = pread(l->fd, l->buf + l->n, want, (off_t)l->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read it");
	l->at += (uint64_t)n;
	l->n += (size_t)n;
	tell(l);
	return n > 0 ? 0 : refuse_damaged(err);
}

static int take(struct loader *l, void *to, size_t size, struct error *err)
{
	int r = size > l->n_left ? refuse_damaged(err) : 0;

	while (r == 0 && l->n < size)
		r = fill(l, err);
	if (r < 0)
		return r;
	memcpy(to, l->buf + l->from, size);
	l->sum = fnv_add(l->sum, to, size);
	l->from += size;
	l->n -= size;
	l->n_left -= size;
	return 0;
}

static int take_text(struct loader *l, char to[static INDEX_MAX_TEXT + 1], size_t size,
		     struct error *err)
{
	int r = size == 0 || size > INDEX_MAX_TEXT ? refuse_damaged(err) : take(l, to, size, err);

	if (r < 0)
		return r;
	to[size] = '\0';
	return strlen(to) == size ? 0 : refuse_damaged(err);
}

static bool is_inside(const struct loader *l, uint64_t start, uint64_t size)
{
	uint64_t end = (uint64_t)l->st->st_size;

	return start <= end && size <= end - start;
}

static int take_member(struct loader *l, struct member *m, uint64_t *startp, struct error *err)
{
	struct file_member fm;
	size_t link_size;
	uint16_t type;
	int r = take(l, &fm, sizeof(fm), err);

	if (r < 0)
		return r;
	type = le16toh(fm.type);
	link_size = le16toh(fm.link_size);
	if (type >= ARRAY_SIZE(file_types) || file_types[type].has_link != (link_size > 0))
		return refuse_damaged(err);
	r = take_text(l, l->path, le16toh(fm.path_size), err);
	if (r == 0 && link_size > 0)
		r = take_text(l, l->link, link_size, err);
	if (r < 0)
		return r;
	*startp = le64toh(fm.start);
	*m = (struct member){
		.type = file_types[type].type,
		.path = l->path,
		.link = link_size > 0 ? l->link : NULL,
		.mode = le16toh(fm.mode) & 07777,
		.mtime = (int64_t)le64toh((uint64_t)fm.mtime),
		.mtime_ns = le32toh(fm.mtime_ns),
		.has_mtime = true,
		.size = le64toh(fm.size),
	};
	if (m->mtime_ns >= NS_PER_SECOND || (m->type != MEMBER_FILE && m->size > 0) ||
	    (m->size > 0 && *startp < UNTAR_BLOCK) || !is_inside(l, *startp, m->size))
		return refuse_damaged(err);
	return 0;
}

/* Names that stand whole in a header, whatever else there is about the member. */
static bool is_plain_name(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)path[i] >= 0x80)
			return false;
	return n < INDEX_NAME_SIZE;
}

/* The header right before the member's data. What records say in its place is not known here: of
 * large files their size. */
static int compare_header(const struct loader *l, const struct member *m, uint64_t start,
			  struct error *err)
{
	unsigned char block[UNTAR_BLOCK];
	struct untar_header h;
	ssize_t n = pread(l->archive, block, sizeof(block), (off_t)(start - UNTAR_BLOCK));

	if (n < 0)
		return error_errno(err, errno, "read the archive");
	if (n < UNTAR_BLOCK || untar_header_read(block, &h) != UNTAR_MEMBER ||
	    h.type != MEMBER_FILE || (h.size != m->size && m->size < UINT64_C(1) << 33) ||
	    (is_plain_name(m->path) && strcmp(h.name, m->path) != 0))
		return refuse_stale(err);
	return 0;
}

static int load_members(struct loader *l, struct error *err)
{
	uint64_t n = l->head.n_members, step = n / INDEX_SAMPLES + 1, next = 0, start = 0;
	struct member m;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		r = take_member(l, &m, &start, err);
		if (r == 0 && m.size > 0 && i >= next) {
			r = compare_header(l, &m, start, err);
			next += step;
		}
		if (r == 0)
			r = archive_index_add(l->index, &m, start, err);
		if (r == 0)
			stage_io_add_unread(l->io, 0, m.type != MEMBER_DIR);
	}
	if (r == 0 && (l->n_left > 0 || l->sum != le64toh(l->head.sum)))
		r = refuse_damaged(err);
	return r;
}

/* Directories without a member of their own come in addition. */
static int expect_members(const struct loader *l, struct error *err)
{
	uint64_t n = l->head.n_members;

	if (l->head.bytes / sizeof(struct file_member) < n)
		return refuse_damaged(err);
	return archive_index_expect(l->index, n, 0, err);
}

int index_file_load(struct archive_index *x, struct stage_io *io, int fd, int archive,
		    const struct stat *st, struct error *err)
{
	_cleanup_(freep) struct loader *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return error_set(err, ENOMEM, "no memory to read it");
	l->io = io;
	l->fd = fd;
	l->archive = archive;
	l->st = st;
	l->index = x;
	l->at = sizeof(l->head);
	l->sum = FNV_INIT;
	r = load_head(l, err);
	if (r == 0)
		r = expect_members(l, err);
	return r < 0 ? r : load_members(l, err);
}
