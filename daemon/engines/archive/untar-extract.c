/*
 * With `nested`, a member that is an archive becomes a directory with its name without the suffix.
 * The same code extracts it, as an inner level. Without `nested`, the first such member is
 * remembered for a hint.
 */
#include "daemon/engines/archive/untar-extract.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/dataset/dataset.h"
#include "common/dataset/path-filter.h"
#include "common/util/error.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/decompress.h"
#include "daemon/engines/archive/untar-members.h"
#include "daemon/engines/archive/untar-writers.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/tree.h"

#define LAST_SIZE 160

const char **untar_get_odd_end(struct untar *x)
{
	return x->io->ds->verify == DATASET_VERIFY_NONE ? &x->odd_end : NULL;
}

/* An archive, which may be in another archive. */
struct level {
	struct untar *x;
	struct members *members;
	const char *prefix; /* directory of its members; "" for the outermost archive */
	unsigned depth;
	uint64_t n_members;
	char last[LAST_SIZE]; /* the member that was begun last; may be cut */
};

static int extract_members(struct level *l, struct error *err);

static struct tree_meta get_meta(const struct member *m)
{
	return (struct tree_meta){
		.mode = m->mode,
		.mtime = { .tv_sec = m->mtime, .tv_nsec = m->has_mtime ? m->mtime_ns : UTIME_NOW },
	};
}

/* Makes the path in the staged tree. Returns 1, 0 if the member is left out, or -errno. */
static int get_path(const struct level *l, const char *name, char buf[static MEMBER_PATH_SIZE],
		    struct error *err)
{
	const struct dataset *ds = l->x->io->ds;
	char clean[MEMBER_PATH_SIZE];
	int r;

	/* strip= and subdir= apply only to the archive that the user named */
	if (l->depth == 0) {
		r = member_path_clean(name, buf, err);
		return r < 0 ? r : member_path_cut(buf, ds->subdir, ds->strip);
	}
	r = member_path_clean(name, clean, err);
	if (r < 0)
		return r;
	r = snprintf(buf, MEMBER_PATH_SIZE, "%s%s%s", l->prefix, *l->prefix && *clean ? "/" : "",
		     clean);
	if (r >= MEMBER_PATH_SIZE)
		return error_set(err, ENAMETOOLONG, "member %.200s… has too long a name", buf);
	return 1;
}

/* ---- data ---- */

/* Adds the data of a file. Sparse files are charged by the bytes that are written. */
static int add_pieces(struct level *l, const char *path, const struct member *m, struct piece *p,
		      int more, struct error *err)
{
	uint64_t written = 0;
	int r = 0;

	while (more > 0 && r == 0) {
		r = stage_io_check(l->x->io, err);
		if (r == 0)
			r = writers_add_piece(l->x->writers, p, err);
		written += p->size;
		if (r == 0)
			more = members_read(l->members, p, err);
	}
	if (r < 0 || more < 0)
		return r < 0 ? r : more;
	if (!m->sparse && written < m->size && m->entry)
		return error_set(err, EBADMSG,
				 "%s is shorter " DAMAGE_ZIP_SIZE ": %llu of %llu bytes", path,
				 (unsigned long long)written, (unsigned long long)m->size);
	if (!m->sparse && written < m->size)
		return error_set(err, ENODATA, "%s has %llu of %llu bytes", path,
				 (unsigned long long)written, (unsigned long long)m->size);
	return 0;
}

static int add_file(struct level *l, const char *path, const struct member *m, struct piece *first,
		    int more, struct error *err)
{
	struct tree_meta meta = get_meta(m);
	int r;

	r = writers_begin_file(l->x->writers, path, &meta, m->size, m->sparse, err);
	if (r == 0 && more > 0) /* so that writers read the data themselves */
		r = members_leave(l->members, first, err);
	if (r == 0)
		r = add_pieces(l, path, m, first, more, err);
	if (r == 0)
		r = writers_end_file(l->x->writers, err);
	return r;
}

/* ---- archives in archives ---- */

/* The data of a member, whose first piece was read already. */
struct member_data {
	struct level *level;
	struct piece first;
	bool first_given;
};

static int next_data(void *arg, struct piece *p, struct error *err)
{
	struct member_data *d = arg;
	int r;

	if (!d->first_given) {
		d->first_given = true;
		*p = d->first;
		return 1;
	}
	r = stage_io_check(d->level->x->io, err);
	return r < 0 ? r : members_read(d->level->members, p, err);
}

/* The data of a member as a stream, for decompressing it. */
struct member_stream {
	struct stream stream;
	struct member_data *data;
};

static ssize_t member_next(struct stream *s, const void **datap, struct error *err)
{
	struct piece p;
	int r = next_data(((struct member_stream *)s)->data, &p, err);

	if (r <= 0)
		return r;
	*datap = p.data;
	return (ssize_t)p.size;
}

static void member_close(struct stream *s)
{
	free(s);
}

static int new_member_stream(struct stream **sp, struct member_data *data, struct error *err)
{
	static const struct stream_ops ops = { .next = member_next, .close = member_close };
	struct member_stream *m = calloc(1, sizeof(*m));

	if (!m)
		return error_set(err, ENOMEM, "out of memory");
	m->stream.ops = &ops;
	m->data = data;
	*sp = &m->stream;
	return 0;
}

/* Opens a zip in the archive. Consumes in, also on failure. */
static int open_zip(struct members **mp, struct stream *in, const struct members_hook *hook,
		    struct error *err)
{
	struct decode *d;
	int r = decode_open_zip_stream(&d, in, err);

	if (r < 0) {
		stream_close(in);
		return r;
	}
	r = members_open_decode(mp, d, hook, err);
	if (r < 0)
		decode_close(d);
	return r;
}

/* Opens an archive in the archive. data must outlive *mp. */
static int open_nested(struct members **mp, struct member_data *data, struct error *err)
{
	struct untar *x = data->level->x;
	const struct members_hook hook = { writers_flush, x->writers, untar_get_odd_end(x) };
	const struct piece_source source = { next_data, data };
	const struct piece *first = &data->first;
	enum facts_filter filter = magic_get_filter(first->data, first->size);
	bool is_zip = magic_get_format(first->data, first->size) == FORMAT_ZIP;
	_cleanup_(stream_closep) struct stream *in = NULL;
	struct stream *plain;
	int r;

	if (filter == FILTER_NONE && !is_zip)
		return members_open_pieces(mp, &source, &hook, err);
	r = new_member_stream(&in, data, err);
	if (r == 0 && filter != FILTER_NONE) {
		r = decompress_new(&plain, in, filter, err);
		if (r == 0)
			in = plain;
	}
	if (r == 0 && is_zip)
		return open_zip(mp, steal_ptr(in), &hook, err);
	if (r == 0)
		r = members_open_tar(mp, in, &hook, err);
	if (r == 0)
		steal_ptr(in);
	return r;
}

static int extract_nested(struct level *l, const char *path, const struct member *m,
			  const struct piece *first, struct error *err)
{
	struct member_data data = { l, *first, false };
	_cleanup_(members_closep) struct members *members = NULL;
	struct tree_meta meta = get_meta(m);
	char dir[MEMBER_PATH_SIZE];
	struct level inner = { .x = l->x, .prefix = dir, .depth = l->depth + 1 };
	int r;

	strcpy(dir, path);
	member_path_cut_suffix(dir);
	meta.mode = 0755;
	r = tree_add_dir(l->x->tree, dir, &meta, err);
	if (r == 0)
		r = open_nested(&members, &data, err);
	inner.members = members;
	if (r == 0)
		r = extract_members(&inner, err);
	if (r == -ENODATA || r == -EBADMSG)
		return damage_set_error(err, r, path, 0);
	if (r < 0)
		error_prefix(err, "%s", path);
	return r;
}

static void remember_archive(struct untar *x, const char *path)
{
	if (x->n_archives++ == 0)
		strcpy(x->first_archive, path);
}

/* Extracts a file. taken: include= and exclude= accept it; if they do not, it may still be an
 * archive with members that they accept. */
static int extract_file(struct level *l, const char *path, const struct member *m, bool taken,
			struct error *err)
{
	struct untar *x = l->x;
	struct piece first = { 0 };
	int more;

	more = members_read(l->members, &first, err);
	if (more < 0)
		return more;
	if (more > 0 && magic_is_archive(first.data, first.size, path)) {
		if (x->io->ds->nested && l->depth < UNTAR_MAX_NESTED)
			return extract_nested(l, path, m, &first, err);
		remember_archive(x, path);
	}
	return taken ? add_file(l, path, m, &first, more, err) : 0;
}

/* ---- members ---- */

static int extract_hardlink(struct level *l, const char *path, const struct member *m,
			    struct error *err)
{
	char to[MEMBER_PATH_SIZE];
	int r;

	if (!*path)
		return tree_refuse_top(err);
	if (m->size > 0)
		return tree_refuse_link_with_data(path, err);
	r = get_path(l, m->link, to, err);
	if (r < 0)
		return r;
	if (r == 0 || !*to) {
		error_set(err, ENOENT, "%s is a hard link to %s, which was not selected", path,
			  m->link);
		return error_set_hint(err, -ENOENT,
				      "select both, or leave the link out by exclude=");
	}
	return writers_add_hardlink(l->x->writers, path, to, err);
}

static int extract_symlink(struct level *l, const char *path, const struct member *m,
			   struct error *err)
{
	struct tree_meta meta = get_meta(m);

	if (!*m->link)
		return tree_refuse_link_to_nothing(path, err);
	return writers_add_symlink(l->x->writers, path, m->link, &meta, err);
}

/* Extracts a directory. A directory that is needed only for selected entries below it is made when
 * the first of these is added. */
static int extract_dir(struct level *l, const char *path, const struct member *m, struct error *err)
{
	const struct path_filter *f = l->x->filter;
	struct tree_meta meta = get_meta(m);

	if (*path && (path_filter_prunes(f, path) || !path_filter_takes(f, path)))
		return 0;
	if (l->depth > 0 && !strcmp(path, l->prefix))
		return 0; /* this is the "./" of an archive in the archive */
	return tree_add_dir(l->x->tree, path, &meta, err);
}

static int refuse_type(const char *path, enum member_type type, struct error *err)
{
	if (type == MEMBER_PART) {
		error_set(err, EINVAL,
			  "%s is the rest of a file that began in another volume (tar -M)", path);
		return error_set_hint(err, -EINVAL,
				      "unpack all volumes (tar -xM -f FIRST -f SECOND) and pack "
				      "them as one tar");
	}
	if (type == MEMBER_NO_LINK)
		tree_refuse_link_to_nothing(path, err);
	else
		error_set(err, EINVAL, "%s is a device, FIFO or socket", path);
	return error_set_hint(err, -EINVAL, "exclude= leaves it out");
}

static int extract_member(struct level *l, const struct member *m, struct error *err)
{
	char path[MEMBER_PATH_SIZE];
	bool taken;
	int r;

	r = get_path(l, m->path, path, err);
	if (r == -ENAMETOOLONG &&
	    !path_filter_takes(l->x->filter, m->path + strspn(m->path, "./"))) {
		if (err)
			*err = (struct error)ERROR_INIT;
		return 0;
	}
	if (r <= 0)
		return r;
	l->x->n_absolute += m->path[0] == '/';
	if (m->type == MEMBER_DIR)
		return extract_dir(l, path, m, err);
	taken = path_filter_takes(l->x->filter, path);
	if (!taken && (m->type != MEMBER_FILE || !l->x->io->ds->nested ||
		       path_filter_prunes(l->x->filter, path)))
		return 0;
	switch (m->type) {
	case MEMBER_FILE:
		return extract_file(l, path, m, taken, err);
	case MEMBER_SYMLINK:
		return extract_symlink(l, path, m, err);
	case MEMBER_HARDLINK:
		return extract_hardlink(l, path, m, err);
	default:
		return refuse_type(path, m->type, err);
	}
}

static void remember_member(struct level *l, const char *path)
{
	size_t n = strnlen(path, LAST_SIZE - 1);

	l->n_members++;
	memcpy(l->last, path, n);
	l->last[n] = '\0';
}

static int extract_members(struct level *l, struct error *err)
{
	struct member m;
	int r;

	while ((r = members_next(l->members, &m, err)) > 0) {
		remember_member(l, m.path);
		r = stage_io_check(l->x->io, err);
		if (r == 0)
			r = extract_member(l, &m, err);
		if (r < 0)
			break;
	}
	if (r < 0)
		return damage_add_member(err, r, l->n_members > 0 ? l->last : NULL);
	if (l->n_members == 0) {
		error_set(err, EINVAL, "the archive is empty");
		return error_set_hint(err, -EINVAL,
				      "put files into it, or method=copy stages it as it is");
	}
	return 0;
}

int untar_extract(struct untar *x, struct members *members, struct error *err)
{
	struct level top = { .x = x, .members = members, .prefix = "" };

	return extract_members(&top, err);
}
