/*
 * The reader of extraction (untar-reader.h) reads the headers, so all of its checks hold.
 *
 * With nested, a member that is a tar is walked by a reader of its own, a level in a level, as by
 * extraction (untar-extract.h). Then the outer reader passes over the member, like over any other.
 */
#include "daemon/engines/archive/tar-scan.h"

#include <errno.h>
#include <string.h>

#include "common/dataset/member-path.h"
#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/tar-walk.h"
#include "daemon/engines/archive/untar-extract.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/archive/untar-sparse.h"
#include "daemon/engines/copy/stage-io.h"

enum {
	SCAN_LAST_SIZE = 160,
	SCAN_LOOK = 4096, /* bytes that are enough to recognise an archive */
};

struct scanner {
	const struct tar_scan *scan;
	struct archive_index *index;
	struct tar_walk *walk;
};

/* An archive, which may be in another archive. */
struct scan_level {
	struct scanner *s;
	struct untar_reader *reader;
	const char *dir; /* directory of its members; "" for the outermost archive */
	unsigned depth;
	uint64_t n_members;
	char last[SCAN_LAST_SIZE]; /* the member that was begun last; may be cut */
};

static int scan_level(struct scan_level *l, struct error *err);

static int refuse_foreign(const struct scan_level *l, struct error *err)
{
	error_set(err, EOPNOTSUPP,
		  "the archive can't be mounted: the %s%s is a device, or in a dialect that only "
		  "extraction reads",
		  *l->last ? "member after " : "first member", l->last);
	return error_set_hint(err, -EOPNOTSUPP,
			      "method=extract unpacks it, without a device by exclude=");
}

/* Returns the offset of the last member's data. */
static uint64_t get_start(const struct scan_level *l)
{
	return tar_walk_get_place(l->s->walk) - untar_reader_get_left(l->reader);
}

/* ---- archives in archives ---- */

static int refuse_packed(const char *path, struct error *err)
{
	error_set(
		err, EOPNOTSUPP,
		"the archive can't be mounted with nested: %s is compressed, sparse or a zip, and "
		"only plain tars in a tar are shown",
		path);
	return error_set_hint(err, -EOPNOTSUPP, "method=extract unpacks it");
}

/* Returns 1: the member becomes a directory; 0: it stays a file; or -errno. */
static int is_opened(struct scan_level *l, const struct member *m, uint64_t start, const char *path,
		     struct error *err)
{
	unsigned char buf[SCAN_LOOK];
	size_t size = m->size < sizeof(buf) ? (size_t)m->size : sizeof(buf);
	ssize_t n;

	if (l->depth >= UNTAR_MAX_NESTED || m->type != MEMBER_FILE ||
	    magic_get_promise(path) == FORMAT_PLAIN)
		return 0;
	if (m->sparse)
		return refuse_packed(path, err);
	n = tar_walk_peek(l->s->walk, start, buf, size, err);
	if (n < 0)
		return (int)n;
	if (!magic_is_archive(buf, (size_t)n, path))
		return 0;
	if (magic_get_format(buf, (size_t)n) != FORMAT_TAR)
		return refuse_packed(path, err);
	return 1;
}

static int add_level(struct scan_level *l, const struct member *m, uint64_t start, const char *dir,
		     struct error *err)
{
	struct tar_walk *walk = l->s->walk;
	const uint64_t end = tar_walk_get_end(walk), left = end - start;
	struct scan_level inner = { .s = l->s, .dir = dir, .depth = l->depth + 1 };
	int r;

	tar_walk_go_to(walk, start, start + (m->size < left ? m->size : left));
	r = scan_level(&inner, err);
	untar_reader_forget(l->reader);
	tar_walk_go_to(walk, start, end);
	return r;
}

static int tar_scan_report(const struct scan_level *l, const struct member *m, uint64_t start,
			   bool is_opened, struct error *err)
{
	const struct tar_scan *scan = l->s->scan;
	struct tar_scan_member found = {
		.member = m, .start = start, .depth = l->depth, .is_opened = is_opened
	};

	if (m->sparse)
		found.packed = archive_index_get_new_pieces(l->s->index, &found.pieces,
							    &found.n_pieces);
	return scan->has_member ? scan->has_member(scan->arg, &found, err) : 0;
}

/* Scans an archive in the archive. path: its path. */
static int open_level(struct scan_level *l, const struct member *m, uint64_t start,
		      const char *path, struct error *err)
{
	struct archive_index *x = l->s->index;
	char dir[MEMBER_PATH_SIZE];
	int r;

	strcpy(dir, path);
	member_path_cut_suffix(dir);
	r = archive_index_open(x, dir, m, err);
	if (r == 0)
		r = tar_scan_report(l, m, start, true, err);
	if (r == 0)
		r = add_level(l, m, start, dir, err);
	archive_index_go_to(x, l->dir);
	if (r == -ENODATA || r == -EBADMSG)
		return damage_set_error(err, r, path, 0);
	if (r < 0)
		error_prefix(err, "%s", path);
	return r;
}

/* Scans a member that is an archive. Returns 1; 0: it stays a file; or -errno. */
static int try_to_open(struct scan_level *l, const struct member *m, uint64_t start,
		       struct error *err)
{
	char path[MEMBER_PATH_SIZE];
	int r = archive_index_get_path(l->s->index, m->path, path, err);

	if (r == 0)
		r = is_opened(l, m, start, path, err);
	if (r <= 0)
		return r;
	r = open_level(l, m, start, path, err);
	return r < 0 ? r : 1;
}

/* ---- members ---- */

static void remember_member(struct scan_level *l, const struct member *m)
{
	size_t n = strnlen(m->path, SCAN_LAST_SIZE - 1);

	l->n_members++;
	memcpy(l->last, m->path, n);
	l->last[n] = '\0';
}

static int add_member(struct scan_level *l, const struct member *m, struct error *err)
{
	struct scanner *s = l->s;
	uint64_t start = get_start(l);
	int r = s->scan->nested ? try_to_open(l, m, start, err) : 0;

	if (r != 0)
		return r < 0 ? r : 0;
	tar_walk_note_member(s->walk, start, m->sparse ? 0 : m->size);
	stage_io_add_unread(s->scan->io, 0, m->type != MEMBER_DIR);
	r = tar_scan_report(l, m, start, false, err);
	return r < 0 ? r : archive_index_add(s->index, m, start, err);
}

/* Gets the next member. A member with damaged pieces counts as begun. */
static int next_member(struct scan_level *l, struct member *m, struct error *err)
{
	int r;

	m->path = NULL;
	r = untar_reader_next(l->reader, m, err);
	if (m->path && r != UNTAR_HAND_OVER)
		remember_member(l, m);
	return r;
}

static int add_members(struct scan_level *l, struct error *err)
{
	struct member m;
	int r;

	while ((r = next_member(l, &m, err)) == 1) {
		r = add_member(l, &m, err);
		if (r < 0)
			break;
	}
	if (r == UNTAR_HAND_OVER)
		return refuse_foreign(l, err);
	if (r < 0)
		return damage_add_member(err, r, l->n_members ? l->last : NULL);
	if (l->n_members == 0) {
		error_set(err, EINVAL, "the archive is empty");
		return error_set_hint(err, -EINVAL,
				      "put files into it, or method=copy stages it as it is");
	}
	return 0;
}

static int add_piece(void *arg, uint64_t pos, uint64_t size, struct error *err)
{
	return archive_index_add_piece(arg, pos, size, err);
}

/* Scans the archive at the walk's position. */
static int scan_level(struct scan_level *l, struct error *err)
{
	_cleanup_(untar_reader_freep) struct untar_reader *reader = NULL;
	const struct untar_pieces pieces = { add_piece, l->s->index };
	struct piece_source source;
	int r;

	tar_walk_get_source(l->s->walk, &source);
	source.odd_end = l->s->scan->odd_end;
	source.pieces = &pieces;
	r = untar_reader_new(&reader, &source, err);
	l->reader = reader;
	return r < 0 ? r : add_members(l, err);
}

int tar_scan(struct archive_index *x, const struct tar_scan *scan, struct error *err)
{
	const struct tar_walk_options options = {
		.fd = scan->fd,
		.size = scan->size,
		.io = scan->io,
		.n_readers = scan->n_readers,
		.segment_size = scan->segment_size,
		.is_fast = scan->is_fast,
		.nested = scan->nested,
	};
	_cleanup_(tar_walk_freep) struct tar_walk *walk = NULL;
	struct scanner s = { .scan = scan, .index = x };
	struct scan_level top = { .s = &s, .dir = "" };
	int r = tar_walk_new(&walk, &options, err);

	s.walk = walk;
	return r < 0 ? r : scan_level(&top, err);
}
