/*
 * Extracts a tar (compressed or not) or a zip to a directory:
 *
 *   file ─ thread that reads ─ decompressor, a thread ─ tar reader ─┬─ writer
 *                                                                   └─ writer
 *
 * Reading, decompressing and writing overlap. The source is read to its last byte, even if the
 * archive ends before. There are two reasons: the checksum is that of the whole file, and only
 * zeros may follow the end of the archive.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/path-filter.h"
#include "common/sandbox/data-rlimit.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/decompress.h"
#include "daemon/engines/archive/untar-extract.h"
#include "daemon/engines/archive/untar-members.h"
#include "daemon/engines/archive/untar-writers.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/copy/tree.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/hint.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/target.h"

#define EXTRACT_MIN_WRITERS 2 /* one writer waits for memory while the other creates files */

static unsigned get_n_writers(const struct ctx *ctx)
{
	return ctx->policy.threads > EXTRACT_MIN_WRITERS ? ctx->policy.threads
							 : EXTRACT_MIN_WRITERS;
}

/* Replaces *inp by the stream of the decompressed data. */
static int unwrap(struct stream **inp, enum facts_filter filter, struct error *err)
{
	struct stream *plain;
	int r;

	r = decompress_new(&plain, *inp, filter, err);
	if (r < 0)
		return r;
	*inp = plain;
	r = stream_new_ahead(&plain, *inp, err);
	if (r == 0)
		*inp = plain;
	return r;
}

static int open_tar(struct untar *x, struct source *src, const struct facts *facts,
		    struct hash *hash, struct members **mp, struct error *err)
{
	const struct members_hook hook = { writers_flush, x->writers, untar_get_odd_end(x) };
	_cleanup_(stream_closep) struct stream *in = NULL;
	int r;

	r = source_open_stream(ctx_of_io(x->io), src, hash, &in, err);
	if (r == 0 && facts->filter != FILTER_NONE)
		r = unwrap(&in, facts->filter, err);
	if (r == 0)
		r = members_open_tar(mp, in, &hook, err);
	if (r == 0)
		steal_ptr(in);
	return r;
}

/* Opens a zip. It is not read sequentially, so its checksum is computed first. */
static int open_zip(struct untar *x, struct source *src, struct hash *hash, struct members **mp,
		    struct error *err)
{
	const struct members_hook hook = { writers_flush, x->writers, untar_get_odd_end(x) };
	_cleanup_(stream_closep) struct stream *in = NULL;
	_cleanup_(decode_closep) struct decode *decode = NULL;
	int r;

	if (hash) /* from here on, everything is read twice */
		ctx_set_passes(ctx_of_io(x->io), src->landed ? 4 : 2);
	r = hash ? stream_new_file(&in, x->io, src->fd, hash, err) : 0;
	if (r == 0 && hash)
		r = stream_drain(in, err);
	if (r == 0)
		r = decode_open_zip_file(&decode, x->io, src->fd, err);
	if (r == 0)
		r = members_open_decode(mp, decode, &hook, err);
	if (r == 0)
		steal_ptr(decode);
	return r;
}

static void report(struct untar *x)
{
	struct tree_counts counts;

	tree_get_counts(x->tree, &counts);
	if (counts.replaced)
		stage_io_warn(x->io, "%llu %s more than once in the archive, the last %s",
			      (unsigned long long)counts.replaced,
			      count_word(counts.replaced, "name comes", "names come"),
			      count_word(counts.replaced, "one counts", "ones count"));
	if (x->n_absolute)
		stage_io_warn(x->io,
			      "%llu %s in the archive began with \"/\", which was taken off, as "
			      "tar and unzip do",
			      (unsigned long long)x->n_absolute,
			      count_word(x->n_absolute, "name", "names"));
	if (x->odd_end)
		stage_io_warn(x->io, "%s; accepted, as verify=none says", x->odd_end);
	if (x->n_archives && !x->io->ds->nested)
		stage_io_warn(x->io, "%llu %s (%.200s); the option nested extracts %s too",
			      (unsigned long long)x->n_archives,
			      count_word(x->n_archives, "member is an archive itself",
					 "members are archives themselves"),
			      x->first_archive, count_word(x->n_archives, "it", "them"));
}

/* Extracts all members. When it returns without an error, all data is written. */
static int extract_members(struct untar *x, struct members *members, struct error *err)
{
	int r = untar_extract(x, members, err);

	return writers_finish(x->writers, r, err);
}

static int extract_all(struct untar *x, struct source *src, const struct facts *facts,
		       struct target *target, struct error *err)
{
	const struct dataset *ds = x->io->ds;
	_cleanup_(hash_freep) struct hash *hash = NULL;
	_cleanup_(members_closep) struct members *members = NULL;
	int r;

	data_rlimit_set(get_n_writers(ctx_of_io(x->io)));
	if (facts->format == FORMAT_ZIP) { /* a zip is not read sequentially */
		if (src->is_remote)
			/* its bytes are fetched, and then unpacked */
			ctx_set_passes(ctx_of_io(x->io), 2);
		r = source_spool(ctx_of_io(x->io), src, target, err);
		if (r < 0)
			return r;
	}
	/* the checksum of a fetched zip was already checked */
	if (ds->verify == DATASET_VERIFY_SHA256 &&
	    !(facts->format == FORMAT_ZIP && src->is_remote) && hash_new(&hash) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (facts->format == FORMAT_ZIP)
		r = open_zip(x, src, hash, &members, err);
	else
		r = open_tar(x, src, facts, hash, &members, err);
	if (r == 0)
		r = extract_members(x, members, err);
	if (r < 0)
		return hint_archive(src, facts->format, r, err);
	r = tree_finish(x->tree, &target->root_mode, err);
	if (r == 0)
		r = source_check_unchanged(src, err);
	if (r == 0 && hash) {
		members_close(steal_ptr(members)); /* joins the thread that computes the checksum */
		r = hash_check(hash, ds->sha256, src->path, err);
	}
	return r;
}

static bool selects(const struct dataset *ds)
{
	return ds->n_include || ds->n_exclude || ds->subdir || ds->strip;
}

static int extract_stage(struct ctx *ctx, struct source *src, const struct facts *facts,
			 const struct plan *plan, struct target *target,
			 struct stager_result *result, struct error *err)
{
	_cleanup_(fd_closep) int root = -1;
	struct untar x = { .io = &ctx->io };
	struct tree_counts counts;
	int r;

	if (mkdirat(target->dirfd, target->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", target->path);
	root = openat(target->dirfd, target->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return error_errno(err, errno, "open %s", target->path);
	r = path_filter_new(&x.filter, ctx->ds, err);
	if (r == 0)
		r = tree_new(&x.tree, root, &ctx->io, err);
	if (r == 0)
		r = writers_new(&x.writers, x.tree, &ctx->io, get_n_writers(ctx), err);
	if (r == 0)
		r = extract_all(&x, src, facts, target, err);
	if (r == 0) {
		report(&x);
		tree_get_counts(x.tree, &counts);
		ctx_get_charged(ctx, &result->bytes, &result->files);
		result->files = counts.files;
	}
	if (r == 0 && counts.files == 0 && selects(ctx->ds)) {
		error_set(err, ENOENT, "nothing in the archive fits what was selected");
		r = error_set_hint(err, -ENOENT, "compare %ssubdir=, include= and exclude= with %s",
				   ctx->ds->strip ? "strip=, " : "",
				   facts->format == FORMAT_ZIP ? "unzip -l" : "tar -t");
	}
	writers_free(x.writers);
	tree_free(x.tree);
	path_filter_free(x.filter);
	return r;
}

/* Our own reader extracts a plain tar. So libarchive, which takes milliseconds to load, is loaded
 * only if the tar has members that our reader does not know. */
static bool can_read(const struct facts *facts)
{
	return (facts->format == FORMAT_TAR && facts->filter == FILTER_NONE) ||
	       decode_is_available();
}

static bool extract_accepts(enum dataset_method method, const struct facts *facts)
{
	return method == DATASET_METHOD_EXTRACT && facts->kind == SOURCE_FILE &&
	       facts_is_archive(facts) && can_read(facts);
}

const struct stager stager_extract = {
	.name = "extract",
	.accepts = extract_accepts,
	.stage = extract_stage,
};
