/*
 * While members are added, names that do not arrive in order are found by a hash (archive-table.h).
 * At the end, entries are sorted by directory and name, and a directory's entries are then found by
 * bisection.
 */
#include "daemon/engines/archive/archive-index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dataset/member-path.h"
#include "common/util/error.h"
#include "daemon/engines/archive/archive-sort.h"
#include "daemon/engines/archive/archive-table.h"
#include "daemon/engines/archive/zip-names.h"
#include "daemon/engines/copy/tree.h"

enum {
	INDEX_MAX_LINK = 4095,
	INDEX_DIR_MODE = 0755,
	INDEX_MAX_REPLACED = 64 << 20, /* in bytes */
	INDEX_NS = (1 << 30) - 1,
};

struct archive_index {
	struct archive_table t;
	int64_t mtime;
	uint32_t n_numbers;
	bool has_hard_links;
	uint64_t replaced_size; /* see note_replaced() */
	const char *dir;	/* directory of new members, lent; "": the top */
	uint64_t first_piece;	/* first piece of the sparse file that is added next */
	uint64_t piece_end;	/* end of its last piece, in the file */
	uint64_t packed;	/* bytes of its pieces */
	struct archive_counts counts;
};

static uint32_t find(struct archive_index *x, uint32_t parent, const char *name, size_t n)
{
	return archive_table_find(&x->t, parent, name, n);
}

/* Adds an entry, which is a directory at first. */
static int add_record(struct archive_index *x, uint32_t parent, const char *name, size_t n,
		      uint32_t *ip, struct error *err)
{
	const struct archive_record rec = {
		.mtime = x->mtime,
		.parent = parent,
		.number = x->n_numbers + 1,
		.mode = INDEX_DIR_MODE,
		.type = MEMBER_DIR,
	};
	int r = archive_table_add(&x->t, &rec, name, n, ip, err);

	if (r == 0)
		x->n_numbers++;
	return r;
}

int archive_index_new(struct archive_index **xp, int64_t mtime, struct error *err)
{
	_cleanup_(archive_index_freep) struct archive_index *x = calloc(1, sizeof(*x));
	uint32_t root;
	int r;

	if (!x)
		return error_set(err, ENOMEM, "no memory for the index of the archive");
	x->mtime = mtime;
	x->dir = "";
	r = archive_table_init(&x->t, err);
	if (r == 0)
		r = add_record(x, ARCHIVE_INDEX_ROOT, "", 0, &root, err);
	if (r == 0)
		*xp = steal_ptr(x);
	return r;
}

void archive_index_set_reserve(struct archive_index *x, archive_index_reserve_fn reserve, void *arg)
{
	x->t.reserve = reserve;
	x->t.arg = arg;
}

int archive_index_expect(struct archive_index *x, uint64_t n, uint64_t text_size, struct error *err)
{
	uint64_t need;

	if (__builtin_mul_overflow(n, ARCHIVE_INDEX_ENTRY, &need) ||
	    __builtin_add_overflow(need, text_size, &need))
		return error_set(err, EFBIG, "the archive has too many members for an index");
	return archive_table_reserve(&x->t, need, err);
}

void archive_index_free(struct archive_index *x)
{
	if (!x)
		return;
	archive_table_deinit(&x->t);
	free(x);
}

/* ---- where members go ---- */

void archive_index_go_to(struct archive_index *x, const char *dir)
{
	x->dir = dir;
}

int archive_index_get_path(const struct archive_index *x, const char *name,
			   char buf[static MEMBER_PATH_SIZE], struct error *err)
{
	char clean[MEMBER_PATH_SIZE];
	int n, r;

	if (!*x->dir)
		return member_path_clean(name, buf, err);
	r = member_path_clean(name, clean, err);
	if (r < 0)
		return r;
	n = snprintf(buf, MEMBER_PATH_SIZE, "%s%s%s", x->dir, *clean ? "/" : "", clean);
	if (n >= MEMBER_PATH_SIZE)
		return error_set(err, ENAMETOOLONG, "member %.200s… has too long a name", buf);
	return 0;
}

/* ---- sparse files ---- */

int archive_index_add_piece(struct archive_index *x, uint64_t pos, uint64_t size, struct error *err)
{
	uint64_t at = x->packed;

	x->packed += size;
	/* there is no hole between the two pieces */
	if (x->t.n_pieces > x->first_piece && pos == x->piece_end) {
		x->piece_end += size;
		return 0;
	}
	x->piece_end = pos + size;
	return archive_table_add_piece(&x->t, pos, at, err);
}

uint64_t archive_index_get_new_pieces(const struct archive_index *x,
				      const struct archive_piece **piecesp, size_t *np)
{
	*np = (size_t)(x->t.n_pieces - x->first_piece);
	*piecesp = *np > 0 ? x->t.pieces + x->first_piece : NULL;
	return x->packed;
}

static int add_end(struct archive_index *x, const struct member *m, struct archive_record *rec,
		   struct error *err)
{
	uint64_t n = x->t.n_pieces - x->first_piece;
	int r;

	if (n > UINT32_MAX || x->packed > ARCHIVE_INDEX_OFFSETS)
		return error_set(err, EFBIG, "%s has too many pieces", m->path);
	r = archive_table_add_piece(&x->t, m->size, x->packed, err);
	if (r < 0)
		return r;
	rec->is_sparse = true;
	rec->packed = x->first_piece & ARCHIVE_INDEX_OFFSETS;
	rec->crc = (uint32_t)n;
	x->first_piece = x->t.n_pieces;
	x->piece_end = x->packed = 0;
	return 0;
}

/* ---- members ---- */

static int refuse_no_dir(const char *path, size_t n, struct error *err)
{
	return error_set(
		err, EEXIST,
		"%.*s is a file or a link in the archive, and a directory in another place of it",
		(int)n, path);
}

static bool is_dir(const struct archive_index *x, uint32_t i)
{
	return x->t.records[i].type == MEMBER_DIR;
}

/* Gets the directory path[0..n), and makes it if it is missing. */
static int get_dir(struct archive_index *x, const char *path, size_t n, uint32_t *dirp,
		   struct error *err)
{
	uint32_t dir = ARCHIVE_INDEX_ROOT, i;
	size_t from = 0, size;
	int r = 0;

	for (; from < n && r == 0; from += size + 1) {
		size = (size_t)(strchrnul(path + from, '/') - path) - from;
		if (size > n - from)
			size = n - from;
		i = find(x, dir, path + from, size);
		if (i == ARCHIVE_INDEX_NONE)
			r = add_record(x, dir, path + from, size, &i, err);
		else if (!is_dir(x, i))
			r = refuse_no_dir(path, from + size, err);
		dir = i;
	}
	*dirp = dir;
	return r;
}

/* Finds the entry at a path. ARCHIVE_INDEX_NONE: there is none, or a part of the path is not a
 * directory. */
static uint32_t find_path(struct archive_index *x, const char *path)
{
	uint32_t i = ARCHIVE_INDEX_ROOT;

	for (const char *s = path; *s && i != ARCHIVE_INDEX_NONE;) {
		size_t n = (size_t)(strchrnul(s, '/') - s);

		i = is_dir(x, i) ? find(x, i, s, n) : ARCHIVE_INDEX_NONE;
		s += n + (s[n] == '/');
	}
	return i;
}

static void set_meta(struct archive_record *rec, const struct member *m)
{
	rec->mode = m->mode & 0777;
	if (!m->has_mtime)
		return;
	rec->mtime = m->mtime;
	rec->mtime_ns = (uint64_t)m->mtime_ns & INDEX_NS;
}

/* A replaced entry keeps its number, and the text of its link, because hard links may share both.
 * This limits them, so n_numbers cannot overflow. */
static int note_replaced(struct archive_index *x, struct archive_record *rec, const char *path,
			 struct error *err)
{
	x->replaced_size += sizeof(rec->number) + (rec->type == MEMBER_SYMLINK ? rec->size + 1 : 0);
	if (x->replaced_size > INDEX_MAX_REPLACED)
		return error_set(err, EFBIG, "%s and other names come again too often", path);
	x->counts.n_replaced++;
	rec->number = ++x->n_numbers;
	return 0;
}

/* The entry for a member that is no directory; what had its name before is replaced. */
static int take_place(struct archive_index *x, const char *path, uint32_t *ip, struct error *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	uint32_t dir;
	int r;

	if (!*path)
		return tree_refuse_top(err);
	r = get_dir(x, path, slash ? (size_t)(slash - path) : 0, &dir, err);
	if (r < 0)
		return r;
	*ip = find(x, dir, name, strlen(name));
	if (*ip == ARCHIVE_INDEX_NONE)
		return add_record(x, dir, name, strlen(name), ip, err);
	if (is_dir(x, *ip))
		return error_set(err, EISDIR,
				 "%s is a directory in the archive, and something else in another "
				 "place of it",
				 path);
	return note_replaced(x, &x->t.records[*ip], path, err);
}

static int add_file(struct archive_index *x, const char *path, const struct member *m,
		    uint64_t start, struct error *err)
{
	uint64_t packed = m->entry ? m->entry->packed : 0;
	struct archive_record *rec;
	uint32_t i = 0;
	int r;

	if (start > ARCHIVE_INDEX_OFFSETS || packed > ARCHIVE_INDEX_OFFSETS)
		return error_set(err, EFBIG, "%s begins after 256 TiB of the archive", path);
	r = take_place(x, path, &i, err);
	if (r < 0)
		return r;
	rec = &x->t.records[i];
	set_meta(rec, m);
	rec->type = MEMBER_FILE;
	rec->start = start & ARCHIVE_INDEX_OFFSETS;
	rec->size = m->size;
	rec->is_deflated = m->entry && m->entry->method == ZIP_DEFLATED && m->size > 0;
	rec->packed = packed & ARCHIVE_INDEX_OFFSETS;
	rec->crc = m->entry ? m->entry->crc : 0;
	rec->is_sparse = false;
	return m->sparse ? add_end(x, m, rec, err) : 0;
}

static int add_symlink(struct archive_index *x, const char *path, const struct member *m,
		       struct error *err)
{
	size_t n = strlen(m->link);
	struct archive_record *rec;
	uint64_t at;
	uint32_t i = 0;
	int r;

	if (n == 0)
		return tree_refuse_link_to_nothing(path, err);
	if (n > INDEX_MAX_LINK)
		return error_set(err, ENAMETOOLONG, "link %s leads to too long a name", path);
	r = take_place(x, path, &i, err);
	if (r == 0)
		r = archive_table_add_text(&x->t, m->link, n, &at, err);
	if (r < 0)
		return r;
	rec = &x->t.records[i];
	set_meta(rec, m);
	rec->type = MEMBER_SYMLINK;
	rec->is_sparse = false;
	rec->start = at & ARCHIVE_INDEX_OFFSETS;
	rec->size = n;
	return 0;
}

/* Adds a hard link with the present data of its target: a later member with the target's name does
 * not change it. */
static int add_hardlink(struct archive_index *x, const char *path, const struct member *m,
			struct error *err)
{
	struct archive_record *rec, own;
	char to[MEMBER_PATH_SIZE];
	uint32_t target, i = 0;
	int r;

	if (!*path) /* also one to itself */
		return tree_refuse_top(err);
	if (m->size > 0)
		return tree_refuse_link_with_data(path, err);
	r = archive_index_get_path(x, m->link, to, err);
	if (r < 0)
		return r;
	target = find_path(x, to);
	if (target == ARCHIVE_INDEX_NONE)
		return tree_refuse_missing_target(path, to, err);
	if (!strcmp(path, to))
		return 0;
	if (is_dir(x, target))
		return tree_refuse_dir_target(path, to, err);
	r = take_place(x, path, &i, err);
	if (r < 0)
		return r;
	rec = &x->t.records[i];
	own = *rec;
	*rec = x->t.records[target];
	rec->name = own.name;
	rec->name_size = own.name_size;
	rec->parent = own.parent;
	rec->n_links = own.n_links;
	x->has_hard_links = true;
	return 0;
}

static int add_dir(struct archive_index *x, const char *path, const struct member *m,
		   struct error *err)
{
	uint32_t i;
	int r = get_dir(x, path, strlen(path), &i, err);

	/* not for the "./" of an archive in the archive */
	if (r == 0 && (!*x->dir || strcmp(path, x->dir) != 0))
		set_meta(&x->t.records[i], m);
	return r;
}

int archive_index_open(struct archive_index *x, const char *dir, const struct member *m,
		       struct error *err)
{
	struct member as_dir = *m;
	uint32_t i;
	int r = get_dir(x, dir, strlen(dir), &i, err);

	if (r < 0)
		return r;
	as_dir.mode = INDEX_DIR_MODE;
	set_meta(&x->t.records[i], &as_dir);
	x->counts.n_absolute += m->path[0] == '/';
	x->dir = dir;
	return 0;
}

int archive_index_add(struct archive_index *x, const struct member *m, uint64_t start,
		      struct error *err)
{
	char path[MEMBER_PATH_SIZE];
	int r = archive_index_get_path(x, m->path, path, err);

	if (r < 0)
		return r;
	x->counts.n_absolute += m->path[0] == '/';
	switch (m->type) {
	case MEMBER_FILE:
		return add_file(x, path, m, start, err);
	case MEMBER_DIR:
		return add_dir(x, path, m, err);
	case MEMBER_SYMLINK:
		return add_symlink(x, path, m, err);
	case MEMBER_HARDLINK:
		return add_hardlink(x, path, m, err);
	default:
		return error_set(err, EINVAL, "%s is a device, FIFO or socket, or a part of a file",
				 path);
	}
}

/* ---- the end ---- */

int archive_index_finish(struct archive_index *x, struct stage_io *io, struct error *err)
{
	struct archive_table *t = &x->t;
	int r;

	archive_table_finish(t);
	r = archive_sort(t, io, err);
	if (r == 0)
		r = archive_sort_count(t->records, t->n, x->has_hard_links ? x->n_numbers : 0,
				       &x->counts, err);
	x->counts.memory = sizeof(*x) + (uint64_t)t->n * sizeof(*t->records) + t->n_texts +
			   t->n_pieces * sizeof(*t->pieces);
	return r;
}

/* ---- lookups ---- */

void archive_index_get_counts(const struct archive_index *x, struct archive_counts *counts)
{
	*counts = x->counts;
}

const struct archive_record *archive_index_get(const struct archive_index *x, uint64_t i)
{
	return i < x->t.n ? &x->t.records[i] : NULL;
}

const char *archive_index_get_text(const struct archive_index *x, uint64_t at)
{
	return x->t.texts + at;
}

const struct archive_piece *archive_index_get_pieces(const struct archive_index *x,
						     const struct archive_record *rec)
{
	/* NULL: all sparse files consist of holes only */
	return x->t.pieces ? x->t.pieces + rec->packed : NULL;
}

uint32_t archive_index_find(const struct archive_index *x, const struct archive_record *dir,
			    const char *name)
{
	uint32_t from = (uint32_t)dir->start, end = from + (uint32_t)dir->size;

	while (from < end) {
		uint32_t middle = from + (end - from) / 2;
		int c = strcmp(x->t.texts + x->t.records[middle].name, name);

		if (c == 0)
			return middle;
		if (c < 0)
			from = middle + 1;
		else
			end = middle;
	}
	return ARCHIVE_INDEX_NONE;
}
