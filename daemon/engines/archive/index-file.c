/*
 * The file is read and not mapped, because if somebody truncates a mapped file, its readers are
 * ended by SIGBUS.
 */
#include "daemon/engines/archive/index-file.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/fnv.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/index-format.h"
#include "daemon/engines/archive/pax-records.h"
#include "daemon/engines/archive/tar-scan.h"
#include "daemon/engines/archive/untar-header.h"
#include "daemon/engines/archive/untar-extract.h"
#include "daemon/engines/archive/untar-sparse.h"
#include "daemon/engines/copy/stage-io.h"

#define NS_PER_SECOND 1000000000

enum {
	INDEX_SAMPLES = 64, /* approximate number of headers that are compared */
	INDEX_NAME_SIZE = 100,
	INDEX_RECORDS = 8 * UNTAR_BLOCK,
};

struct loader {
	struct stage_io *io;
	int fd, archive;
	const struct stat *st; /* status of the archive */
	uint64_t told;	       /* bytes of the archive that were counted as progress */
	struct archive_index *index;
	struct file_head head;
	bool nested;
	unsigned depth; /* maximum depth of the next member */
	/* directories of the members of each depth */
	char dirs[UNTAR_MAX_NESTED + 1][MEMBER_PATH_SIZE];
	uint64_t at; /* offset after the bytes in buf */
	uint64_t n_left, sum;
	size_t from, n; /* unused bytes in buf */
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
	ssize_t n = fd_pread_all(l->fd, h, sizeof(*h), 0);

	if (n < 0)
		return error_errno(err, (int)-n, "read it");
	if (fstat(l->fd, &st) < 0)
		return error_errno(err, errno, "read it");
	if (n < (ssize_t)sizeof(*h) || memcmp(h->magic, INDEX_MAGIC, sizeof(h->magic)) != 0)
		return error_set(err, EBADMSG, "it is no index of this version");
	h->n_members = le64toh(h->n_members);
	h->bytes = le64toh(h->bytes);
	h->n_inner = le32toh(h->n_inner);
	l->n_left = h->bytes;
	if (le64toh(h->size) != (uint64_t)l->st->st_size ||
	    (int64_t)le64toh((uint64_t)h->mtime) != l->st->st_mtim.tv_sec ||
	    le64toh(h->mtime_ns) != (uint64_t)l->st->st_mtim.tv_nsec)
		return refuse_stale(err);
	if (l->nested && !h->nested)
		return error_set(err, EOPNOTSUPP, "it was made without --nested");
	/* Each member has a header in the archive, and an entry of limited size here. This limits
	 * the memory. */
	if (h->n_members <= h->n_inner || h->n_members > (uint64_t)l->st->st_size / UNTAR_BLOCK ||
	    (uint64_t)st.st_size - sizeof(*h) != h->bytes)
		return refuse_damaged(err);
	return 0;
}

/* Reports progress. n_left includes the bytes in buf. */
static void index_file_report(struct loader *l)
{
	uint64_t left = l->n_left > l->n ? l->n_left - l->n : 0; /* the file may have grown */
	uint64_t done = l->head.bytes - left, size = (uint64_t)l->st->st_size;
	uint64_t to = (uint64_t)((__uint128_t)size * done / l->head.bytes);

	stage_io_add_unread(l->io, to - l->told, 0);
	l->told = to;
}

/* Reads more bytes after those in buf. */
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
	index_file_report(l);
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

static int add_piece(void *arg, uint64_t pos, uint64_t size, struct error *err)
{
	return archive_index_add_piece(arg, pos, size, err);
}

static int ignore_piece(void *arg, uint64_t pos, uint64_t size, struct error *err)
{
	return 0;
}

static bool is_inside(const struct loader *l, uint64_t start, uint64_t size)
{
	uint64_t end = (uint64_t)l->st->st_size;

	return start <= end && size <= end - start;
}

/* Adds the pieces to the index, if the member is wanted. *packedp: bytes of all pieces. */
static int take_pieces(struct loader *l, uint64_t size, bool wanted, uint64_t *packedp,
		       struct error *err)
{
	const struct untar_pieces pieces = { wanted ? add_piece : ignore_piece, l->index };
	struct untar_map map = { .pieces = &pieces, .size = size };
	struct file_piece fp;
	uint64_t n;
	int r = take(l, &n, sizeof(n), err);

	for (n = r == 0 ? le64toh(n) : 0; n > 0 && r == 0; n--) {
		r = take(l, &fp, sizeof(fp), err);
		if (r == 0)
			r = untar_map_add(&map, le64toh(fp.pos), le64toh(fp.size), err);
	}
	*packedp = map.packed;
	return r;
}

static int take_member(struct loader *l, struct member *m, struct tar_scan_member *found,
		       struct error *err)
{
	struct file_member fm;
	uint64_t packed;
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
	*found = (struct tar_scan_member){
		.member = m,
		.start = le64toh(fm.start),
		.depth = le16toh(fm.depth),
		.is_opened = file_types[type].is_opened,
	};
	*m = (struct member){
		.type = file_types[type].type,
		.path = l->path,
		.link = link_size > 0 ? l->link : NULL,
		.mode = le16toh(fm.mode) & 07777,
		.mtime = (int64_t)le64toh((uint64_t)fm.mtime),
		.mtime_ns = le32toh(fm.mtime_ns),
		.has_mtime = true,
		.size = le64toh(fm.size),
		.sparse = file_types[type].is_sparse,
	};
	packed = m->size;
	if (m->sparse)
		r = take_pieces(l, m->size, l->nested || found->depth == 0, &packed, err);
	if (r < 0)
		return r;
	if (m->mtime_ns >= NS_PER_SECOND || (m->type != MEMBER_FILE && m->size > 0) ||
	    (m->size > 0 && found->start < UNTAR_BLOCK) || !is_inside(l, found->start, packed) ||
	    found->depth > l->depth || found->depth + found->is_opened > UNTAR_MAX_NESTED)
		return refuse_damaged(err);
	return 0;
}

/* Returns true for names that fit completely in a header, whatever other headers the member has. */
static bool is_plain_name(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)path[i] >= 0x80)
			return false;
	return n < INDEX_NAME_SIZE;
}

/* Returns whether the data is extended records, and they have that size. */
static bool have_size(const char *data, size_t n, uint64_t size)
{
	struct pax_record rec;
	uint64_t found = 0;

	while (n > 0 && pax_records_next(&data, &n, &rec))
		if (pax_record_is(&rec, "size") &&
		    !pax_read_digits(rec.value, rec.value_size, &found))
			return false;
	return n == 0 && found == size;
}

/* Returns whether the extended header directly before the header at offset `at` has the member's
 * size. The content of a member before it may have such a text, too. */
static bool has_size_record(const struct loader *l, const struct member *m, uint64_t at)
{
	unsigned char data[INDEX_RECORDS];
	const size_t size = at < sizeof(data) ? (size_t)at : sizeof(data);
	struct untar_header h;

	if (fd_pread_all(l->archive, data, size, at - size) != (ssize_t)size)
		return false;
	for (size_t i = UNTAR_BLOCK; i < size; i += UNTAR_BLOCK) {
		if (untar_header_read(data + i - UNTAR_BLOCK, &h) == UNTAR_PAX &&
		    h.size <= size - i && size - i - h.size < UNTAR_BLOCK &&
		    have_size((const char *)data + i, (size_t)h.size, m->size))
			return true;
	}
	return false;
}

/* Returns whether the header at offset `at`, which has the size in_header, may be the member's. The
 * size of a large file, and of one whose header says 0, may be in extended records. */
static bool is_size_of(const struct loader *l, const struct member *m, uint64_t at,
		       uint64_t in_header)
{
	return in_header == m->size || m->size >= UINT64_C(1) << 33 ||
	       (in_header == 0 && has_size_record(l, m, at));
}

/* Compares the header directly before the member's data. */
static int compare_header(const struct loader *l, const struct member *m, uint64_t start,
			  struct error *err)
{
	unsigned char block[UNTAR_BLOCK];
	struct untar_header h;
	ssize_t n = fd_pread_all(l->archive, block, sizeof(block), start - UNTAR_BLOCK);

	if (n < 0)
		return error_errno(err, (int)-n, "read the archive");
	if (n < UNTAR_BLOCK || untar_header_read(block, &h) != UNTAR_MEMBER ||
	    h.type != MEMBER_FILE || !is_size_of(l, m, start - UNTAR_BLOCK, h.size) ||
	    (is_plain_name(m->path) && strcmp(h.name, m->path) != 0))
		return refuse_stale(err);
	return 0;
}

/* Makes the directory for the members of an archive in the archive, which come next. */
static int open_archive(struct loader *l, const struct member *m, struct error *err)
{
	char *dir = l->dirs[l->depth];
	int r = archive_index_get_path(l->index, m->path, dir, err);

	if (r < 0)
		return r;
	member_path_cut_suffix(dir);
	return archive_index_open(l->index, dir, m, err);
}

static int add_member(struct loader *l, const struct tar_scan_member *found, struct error *err)
{
	const struct member *m = found->member;
	int r;

	l->depth = found->depth + found->is_opened;
	if (!l->nested && found->depth > 0)
		return 0;
	archive_index_go_to(l->index, l->dirs[found->depth]);
	if (l->nested && found->is_opened)
		return open_archive(l, m, err);
	r = archive_index_add(l->index, m, found->start, err);
	if (r == 0)
		stage_io_add_unread(l->io, 0, m->type != MEMBER_DIR);
	return r;
}

static int load_members(struct loader *l, struct error *err)
{
	uint64_t n = l->head.n_members, step = n / INDEX_SAMPLES + 1, next = 0;
	struct tar_scan_member found = { 0 };
	struct member m;
	int r = 0;

	for (uint64_t i = 0; i < n && r == 0; i++) {
		r = take_member(l, &m, &found, err);
		if (r == 0 && m.size > 0 && !m.sparse && i >= next) {
			r = compare_header(l, &m, found.start, err);
			next += step;
		}
		if (r == 0)
			r = add_member(l, &found, err);
	}
	archive_index_go_to(l->index, "");
	if (r == 0 && (l->n_left > 0 || l->sum != le64toh(l->head.sum)))
		r = refuse_damaged(err);
	return r;
}

/* Reserves memory for the members. Directories that are not members are not included. */
static int expect_members(const struct loader *l, struct error *err)
{
	uint64_t n = l->head.n_members;

	if (l->head.bytes / sizeof(struct file_member) < n)
		return refuse_damaged(err);
	return archive_index_expect(l->index, l->nested ? n : n - l->head.n_inner, 0, err);
}

int index_file_load(struct archive_index *x, struct stage_io *io, int fd, int archive,
		    const struct stat *st, bool nested, struct error *err)
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
	l->nested = nested;
	l->at = sizeof(l->head);
	l->sum = FNV_INIT;
	r = load_head(l, err);
	if (r == 0)
		r = expect_members(l, err);
	return r < 0 ? r : load_members(l, err);
}
