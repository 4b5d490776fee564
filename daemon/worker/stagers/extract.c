/*
 * Opens a tar (wrapped or not) or a zip into a directory.
 *
 *   file ─ thread that reads ─ decompressor ─ thread that reads ahead ─ tar reader ─ tree
 *
 * so that reading, decompressing and writing overlap. The source is read to its last byte also
 * where the archive ends before: for the checksum, and because what is behind the end has to be
 * nothing.
 *
 * With `nested` a member that is an archive itself becomes a directory named like it without its
 * suffix, streamed through the same code. Without, the first such member is remembered for a hint.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/decode.h"
#include "daemon/worker/filter.h"
#include "daemon/worker/gunzip.h"
#include "daemon/worker/hash.h"
#include "daemon/worker/magic.h"
#include "daemon/worker/member-path.h"
#include "daemon/worker/mend.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/stream.h"
#include "daemon/worker/target.h"
#include "daemon/worker/tree.h"

#define EXTRACT_MAX_NESTED 4
#define EXTRACT_REST_SIZE (64 * 1024)

struct extract {
	struct ctx *ctx;
	struct filter *filter;
	struct tree *tree;
	uint64_t n_archives; /* members that are archives and stay so */
	char first_archive[MEMBER_PATH_SIZE];
};

/* One archive of those that may lie in each other. */
struct level {
	struct extract *x;
	struct decode *decode;
	const char *prefix; /* directory it goes to, "" for the outermost */
	unsigned depth;
	uint64_t n_members;
};

static int extract_members(struct level *l, struct error *err);

static struct tree_meta get_meta(const struct member *m)
{
	return (struct tree_meta){
		.mode = m->mode,
		.mtime = { .tv_sec = m->mtime, .tv_nsec = m->has_mtime ? m->mtime_ns : UTIME_NOW },
	};
}

/* The name in the staged tree. 0: not taken. */
static int get_path(const struct level *l, const char *name, char buf[static MEMBER_PATH_SIZE],
		    struct error *err)
{
	const struct dataset *ds = l->x->ctx->ds;
	char clean[MEMBER_PATH_SIZE];
	int r;

	r = member_path_clean(name, clean, err);
	if (r < 0)
		return r;
	/* strip= and subdir= are about the archive that the user named */
	if (l->depth == 0 && !member_path_cut(clean, ds->subdir, ds->strip))
		return 0;
	r = snprintf(buf, MEMBER_PATH_SIZE, "%s%s%s", l->prefix, *l->prefix && *clean ? "/" : "",
		     clean);
	if (r >= MEMBER_PATH_SIZE)
		return error_set(err, ENAMETOOLONG, "member %.200s… has too long a name", buf);
	return 1;
}

/* ---- data ---- */

static int write_piece(int fd, const void *data, size_t size, uint64_t offset, const char *path,
		       struct error *err)
{
	const char *p = data;
	ssize_t n;

	while (size > 0) {
		n = pwrite(fd, p, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "write %s", path);
		p += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

struct piece {
	const void *data;
	size_t size;
	uint64_t offset;
	int more; /* 1: is one */
};

static int next_piece(struct level *l, struct piece *p, struct error *err)
{
	p->more = decode_read(l->decode, &p->data, &p->size, &p->offset, err);
	return p->more;
}

/* The first piece is there already. Sparse files are charged by what is written. */
static int write_pieces(struct level *l, struct piece *p, int fd, const char *path,
			const struct member *m, struct error *err)
{
	uint64_t written = 0;
	int r = 0;

	while (p->more > 0 && r == 0) {
		r = ctx_check(l->x->ctx, err);
		if (r == 0 && (m->sparse || p->offset + p->size > m->size))
			r = ctx_charge(l->x->ctx, p->size, 0, err);
		if (r == 0)
			r = write_piece(fd, p->data, p->size, p->offset, path, err);
		written += p->size;
		if (r == 0)
			r = next_piece(l, p, err) < 0 ? p->more : 0;
	}
	if (r == 0 && !m->sparse && written < m->size)
		return error_set(err, ENODATA, "%s has %llu of %llu bytes", path,
				 (unsigned long long)written, (unsigned long long)m->size);
	return r;
}

static int add_file(struct level *l, const char *path, const struct member *m, struct piece *first,
		    struct error *err)
{
	struct tree_meta meta = get_meta(m);
	_cleanup_(fd_closep) int fd = -1;
	int r;

	r = tree_add_file(l->x->tree, path, &meta, m->size, m->sparse, &fd, err);
	if (r == 0)
		r = write_pieces(l, first, fd, path, m, err);
	if (r == 0)
		r = tree_end_file(l->x->tree, fd, path, &meta, err);
	if (r == 0)
		ctx_add_progress(l->x->ctx, 0, 1);
	return r;
}

/* ---- archives in archives ---- */

struct member_stream {
	struct stream stream;
	struct level *level;
	struct piece first;
	bool first_given;
};

static ssize_t member_next(struct stream *s, const void **datap, struct error *err)
{
	struct member_stream *m = (struct member_stream *)s;
	struct piece *p = &m->first;
	int r;

	if (m->first_given) {
		r = ctx_check(m->level->x->ctx, err);
		if (r == 0)
			r = next_piece(m->level, p, err);
		if (r < 0)
			return r;
	}
	m->first_given = true;
	*datap = p->data;
	return p->more > 0 ? (ssize_t)p->size : 0;
}

static void member_close(struct stream *s)
{
	free(s);
}

static int new_member_stream(struct stream **sp, struct level *l, const struct piece *first,
			     struct error *err)
{
	static const struct stream_ops ops = { member_next, member_close };
	struct member_stream *m = calloc(1, sizeof(*m));

	if (!m)
		return error_set(err, ENOMEM, "out of memory");
	*m = (struct member_stream){ { &ops }, l, *first, false };
	*sp = &m->stream;
	return 0;
}

static int open_nested(struct decode **dp, struct level *l, const struct piece *first,
		       struct error *err)
{
	_cleanup_(stream_closep) struct stream *in = NULL;
	struct stream *plain = NULL;
	enum facts_filter filter;
	int r;

	r = new_member_stream(&in, l, first, err);
	if (r < 0)
		return r;
	filter = magic_get_filter(first->data, first->size);
	if (filter != FILTER_NONE) {
		r = filter == FILTER_GZIP ? gunzip_new(&plain, in, err)
					  : decode_unfilter(&plain, in, err);
		if (r < 0)
			return r;
		in = plain;
	}
	if (magic_get_format(first->data, first->size) == FORMAT_ZIP)
		r = decode_open_zip_stream(dp, in, err);
	else
		r = decode_open_tar(dp, in, err);
	if (r == 0)
		in = NULL;
	return r;
}

static int extract_nested(struct level *l, const char *path, const struct member *m,
			  const struct piece *first, struct error *err)
{
	_cleanup_(decode_closep) struct decode *decode = NULL;
	struct tree_meta meta = get_meta(m);
	char dir[MEMBER_PATH_SIZE];
	struct level inner = { .x = l->x, .prefix = dir, .depth = l->depth + 1 };
	int r;

	strcpy(dir, path);
	member_path_cut_suffix(dir);
	meta.mode = 0755;
	r = tree_add_dir(l->x->tree, dir, &meta, err);
	if (r == 0)
		r = open_nested(&decode, l, first, err);
	inner.decode = decode;
	if (r == 0)
		r = extract_members(&inner, err);
	if (r == -ENODATA || r == -EBADMSG)
		return mend_damage(err, r, path, 0);
	if (r < 0)
		error_prefix(err, "%s", path);
	return r;
}

static void remember_archive(struct extract *x, const char *path)
{
	if (x->n_archives++ == 0)
		strcpy(x->first_archive, path);
}

/* taken: fits include= and exclude=; if not, it may still be an archive with something that does.
 */
static int extract_file(struct level *l, const char *path, const struct member *m, bool taken,
			struct error *err)
{
	struct extract *x = l->x;
	struct piece first = { 0 };
	int r;

	r = next_piece(l, &first, err);
	if (r < 0)
		return r;
	if (r > 0 && magic_is_archive(first.data, first.size, path)) {
		if (x->ctx->ds->nested && l->depth < EXTRACT_MAX_NESTED)
			return extract_nested(l, path, m, &first, err);
		remember_archive(x, path);
	}
	if (!taken)
		return 0;
	return add_file(l, path, m, &first, err);
}

/* ---- members ---- */

static int extract_hardlink(struct level *l, const char *path, const struct member *m,
			    struct error *err)
{
	char to[MEMBER_PATH_SIZE];
	int r;

	if (m->size > 0)
		return error_set(err, EINVAL, "%s is a hard link that brings data along", path);
	r = get_path(l, m->link, to, err);
	if (r < 0)
		return r;
	if (r == 0 || !*to) {
		error_set(err, ENOENT, "%s is a hard link to %s, which was not selected", path,
			  m->link);
		return error_mend(err, -ENOENT, "select both, or neither");
	}
	r = tree_add_hardlink(l->x->tree, path, to, err);
	if (r == 0)
		ctx_add_progress(l->x->ctx, 0, 1);
	return r;
}

static int extract_symlink(struct level *l, const char *path, const struct member *m,
			   struct error *err)
{
	struct tree_meta meta = get_meta(m);
	int r = tree_add_symlink(l->x->tree, path, m->link, &meta, err);

	if (r == 0)
		ctx_add_progress(l->x->ctx, 0, 1);
	return r;
}

/* A directory that only comes along with what is selected below it is made when that comes. */
static int extract_dir(struct level *l, const char *path, const struct member *m, struct error *err)
{
	const struct filter *f = l->x->filter;
	struct tree_meta meta = get_meta(m);

	if (*path && (filter_prunes(f, path) || !filter_takes(f, path)))
		return 0;
	if (l->depth > 0 && !strcmp(path, l->prefix))
		return 0; /* the "./" of a nested archive */
	return tree_add_dir(l->x->tree, path, &meta, err);
}

static int extract_member(struct level *l, const struct member *m, struct error *err)
{
	char path[MEMBER_PATH_SIZE];
	bool taken;
	int r;

	r = get_path(l, m->path, path, err);
	if (r <= 0)
		return r;
	if (m->type == MEMBER_DIR)
		return extract_dir(l, path, m, err);
	taken = filter_takes(l->x->filter, path);
	if (!taken &&
	    (m->type != MEMBER_FILE || !l->x->ctx->ds->nested || filter_prunes(l->x->filter, path)))
		return 0;
	switch (m->type) {
	case MEMBER_FILE:
		return extract_file(l, path, m, taken, err);
	case MEMBER_SYMLINK:
		return extract_symlink(l, path, m, err);
	case MEMBER_HARDLINK:
		return extract_hardlink(l, path, m, err);
	default:
		error_set(err, EINVAL, "%s is a device, FIFO or socket", path);
		return error_mend(err, -EINVAL, "exclude= leaves it out");
	}
}

static int extract_members(struct level *l, struct error *err)
{
	struct member m;
	int r;

	while ((r = decode_next(l->decode, &m, err)) > 0) {
		l->n_members++;
		r = ctx_check(l->x->ctx, err);
		if (r == 0)
			r = extract_member(l, &m, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (l->n_members == 0) {
		error_set(err, EINVAL, "the archive is empty");
		return error_mend(err, -EINVAL,
				  "put files into it, or method=copy stages it as it is");
	}
	return decode_finish(l->decode, err);
}

/* ---- the whole ---- */

/* Behind compressed data there may be zeros (padding of tapes), nothing else. */
static int check_rest(int fd, uint64_t from, struct error *err)
{
	char buf[EXTRACT_REST_SIZE];
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), (off_t)from)) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (buf[i])
				return error_set(err, EBADMSG,
						 "rubbish behind the compressed data");
		}
		from += (uint64_t)n;
	}
	return n < 0 ? error_errno(err, errno, "read the source") : 0;
}

/* Passes on what it reads, and looks at the end of the compressed data once it has come. */
struct checked_stream {
	struct stream stream;
	struct stream *in;
	int fd;
};

static ssize_t checked_next(struct stream *s, const void **datap, struct error *err)
{
	struct checked_stream *c = (struct checked_stream *)s;
	ssize_t n = stream_next(c->in, datap, err);
	int r;

	if (n != 0)
		return n;
	r = decode_drain_source(c->in, err); /* for the checksum */
	return r < 0 ? r : check_rest(c->fd, decode_get_consumed(c->in), err);
}

static void checked_close(struct stream *s)
{
	struct checked_stream *c = (struct checked_stream *)s;

	stream_close(c->in);
	free(c);
}

/* in is consumed on success. */
static int new_checked_unfilter(struct stream **sp, struct stream *in, int fd, struct error *err)
{
	static const struct stream_ops ops = { checked_next, checked_close };
	struct checked_stream *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	r = decode_unfilter(&c->in, in, err);
	if (r < 0) {
		free(c);
		return r;
	}
	c->stream.ops = &ops;
	c->fd = fd;
	*sp = &c->stream;
	return 0;
}

static int put_ahead(struct stream **sp, struct error *err)
{
	struct stream *ahead;
	int r = stream_new_ahead(&ahead, *sp, err);

	if (r == 0)
		*sp = ahead;
	return r;
}

static int open_tar(struct extract *x, struct source *src, const struct facts *facts,
		    struct hash *hash, struct decode **dp, struct error *err)
{
	_cleanup_(stream_closep) struct stream *in = NULL;
	struct stream *plain = NULL;
	int r;

	r = stream_new_file(&in, x->ctx, src->fd, hash, err);
	if (r == 0)
		r = put_ahead(&in, err);
	if (r == 0 && facts->filter != FILTER_NONE) {
		r = facts->filter == FILTER_GZIP ? gunzip_new(&plain, in, err)
						 : new_checked_unfilter(&plain, in, src->fd, err);
		if (r < 0)
			return r;
		in = plain;
		r = put_ahead(&in, err);
	}
	if (r == 0)
		r = decode_open_tar(dp, in, err);
	if (r == 0)
		in = NULL;
	return r;
}

/* A zip is read here and there: its checksum is taken first, in one go. */
static int open_zip(struct extract *x, struct source *src, struct hash *hash, struct decode **dp,
		    struct error *err)
{
	_cleanup_(stream_closep) struct stream *in = NULL;
	int r;

	r = hash ? stream_new_file(&in, x->ctx, src->fd, hash, err) : 0;
	if (r == 0 && hash)
		r = stream_drain(in, err);
	if (r < 0)
		return r;
	if (lseek(src->fd, 0, SEEK_SET) < 0)
		return error_errno(err, errno, "read %s", src->path);
	return decode_open_zip_file(dp, src->fd, err);
}

static void report(struct extract *x)
{
	struct tree_counts counts;

	tree_get_counts(x->tree, &counts);
	if (counts.replaced)
		ctx_warn(x->ctx,
			 "%llu names come more than once in the archive, the last ones count",
			 (unsigned long long)counts.replaced);
	if (x->n_archives && !x->ctx->ds->nested)
		ctx_warn(x->ctx,
			 "%llu members are archives themselves (%.200s); the option nested "
			 "extracts them too",
			 (unsigned long long)x->n_archives, x->first_archive);
}

/* What is wrong with the archive itself is mended by making it again. */
static int refuse_archive(const struct source *src, int r, struct error *err)
{
	r = mend_damage(err, r, src->path, (uint64_t)src->st.st_size);
	if (r == -EINVAL || r == -EEXIST || r == -EISDIR || r == -ENOENT || r == -ENAMETOOLONG)
		error_mend(err, r, "make the archive again, by tar -C DIR -cf FILE .");
	return r;
}

static int extract_all(struct extract *x, struct source *src, const struct facts *facts,
		       struct target *target, struct error *err)
{
	const struct dataset *ds = x->ctx->ds;
	_cleanup_(decode_closep) struct decode *decode = NULL;
	_cleanup_(hash_freep) struct hash *hash = NULL;
	struct level top = { .x = x, .prefix = "" };
	int r = 0;

	if (ds->verify == DATASET_VERIFY_SHA256 && hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (facts->format == FORMAT_ZIP)
		r = open_zip(x, src, hash, &decode, err);
	else
		r = open_tar(x, src, facts, hash, &decode, err);
	top.decode = decode;
	if (r == 0)
		r = extract_members(&top, err);
	if (r < 0)
		return refuse_archive(src, r, err);
	if (r == 0)
		r = tree_finish(x->tree, &target->root_mode, err);
	if (r == 0)
		r = source_check_unchanged(src, err);
	if (r == 0 && hash) {
		decode_close(steal_ptr(decode)); /* joins the thread that feeds the hash */
		r = hash_check(hash, ds->sha256, src->path, err);
	}
	return r;
}

static int extract_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
			 const struct plan *plan, struct target *target,
			 struct stager_result *result, struct error *err)
{
	_cleanup_(fd_closep) int root = -1;
	struct extract x = { .ctx = ctx };
	struct tree_counts counts;
	int r;

	if (mkdirat(target->dirfd, target->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", target->path);
	root = openat(target->dirfd, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return error_errno(err, errno, "open %s", target->path);
	r = filter_new(&x.filter, ctx->ds, err);
	if (r == 0)
		r = tree_new(&x.tree, root, ctx, err);
	if (r == 0)
		r = extract_all(&x, src, facts, target, err);
	if (r == 0) {
		report(&x);
		tree_get_counts(x.tree, &counts);
		ctx_get_charged(ctx, &result->bytes, &result->files);
		result->files = counts.files;
	}
	if (r == 0 && counts.files == 0) {
		error_set(err, ENOENT, "nothing in the archive fits what was selected");
		r = error_mend(err, -ENOENT, "compare subdir=, include= and exclude= with tar -t");
	}
	tree_free(x.tree);
	filter_free(x.filter);
	return r;
}

static bool extract_accepts(enum dataset_method method, const struct facts *facts)
{
	return method == DATASET_METHOD_EXTRACT && facts->kind == SOURCE_FILE &&
	       facts_is_archive(facts) && decode_is_available();
}

const struct stager stager_extract = {
	.name = "extract",
	.accepts = extract_accepts,
	.stage = extract_stage,
};
