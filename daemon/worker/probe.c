/*
 * The beginning of a file shows its format, and for some formats its end shows the size of its
 * content. Trees and sets are counted (copy-count.c).
 */
#include "daemon/worker/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/facts.h"
#include "common/sandbox/data-rlimit.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/page.h"
#include "common/util/url.h"
#include "daemon/engines/archive/damage.h"
#include "daemon/engines/archive/decode.h"
#include "daemon/engines/archive/decompress.h"
#include "daemon/engines/archive/estimate.h"
#include "daemon/engines/archive/magic.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/tar-sample.h"
#include "daemon/engines/archive/zip-names.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/worker/copy-count.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/web/fetch-ranges.h"

#define PROBE_PEEK_SIZE (1 << 20) /* bytes of an archive that are read for its first headers */
/* An lz4 block can only be unpacked as a whole, and may have 4 MiB. */
#define PROBE_PEEK_LZ4_SIZE (PROBE_PEEK_SIZE + (4 << 20))
#define PROBE_MAX_JUMPS 64
#define ZIP_RATIO 3

/* ---- one file ---- */

/* Returns whether the user, or the name, says that the source is a tar. Then a file that cannot be
 * read as a tar is damaged, and extraction reports how. */
static bool should_be_tar(const struct ctx *ctx, enum facts_format promise)
{
	return plan_asks_to_open(ctx->ds) ||
	       (ctx->ds->method == DATASET_METHOD_AUTO && promise == FORMAT_TAR);
}

/* Returns the format that an address promises, without its query and fragment. */
static enum facts_format get_url_promise(const char *url)
{
	size_t n = url_scheme_of(url) == URL_S3 ? strlen(url) : strcspn(url, "?#");
	_cleanup_(freep) char *path = strndup(url, n);

	return path ? magic_get_promise(path) : FORMAT_PLAIN;
}

/* Returns the format that the name promises. The user's name is tried first, then the target of a
 * link, then the name that the server sends. */
static enum facts_format get_promise(const struct source *src)
{
	enum facts_format promise = FORMAT_PLAIN;

	if (src->n_objects > 0)
		promise = get_url_promise(src->objects[0].url);
	else if (!src->is_remote)
		promise = magic_get_promise(src->path);
	if (promise == FORMAT_PLAIN && src->real)
		promise = magic_get_promise(src->real);
	if (promise == FORMAT_PLAIN && src->called)
		promise = magic_get_promise(src->called);
	return promise;
}

/* Does the same for a zip. A zip may have other bytes before it, because it is read from its
 * end. */
static bool should_be_zip(const struct ctx *ctx, enum facts_format promise)
{
	return plan_asks_to_open(ctx->ds) ||
	       (ctx->ds->method == DATASET_METHOD_AUTO && promise == FORMAT_ZIP);
}

/* Returns the kind of content of a file that has no known format. */
static const struct magic_unexpected *get_unexpected(const struct ctx *ctx,
						     const struct source *src,
						     const struct facts *facts, const void *block,
						     size_t n)
{
	const struct magic_unexpected *other = magic_get_unexpected(block, n);

	if (!other && !src->is_remote && should_be_zip(ctx, facts->promise) &&
	    zip_names_has_end(src->fd, facts->bytes))
		return &magic_zip_behind_data;
	return other;
}

/* Returns whether the block is all zeros: a tar without members begins with the zeros of its
 * end. */
static bool is_zero(const unsigned char *p, size_t n)
{
	return n >= MAGIC_SIZE && p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Such a tar has nothing but zeros. Disk images also begin with zeros, but other bytes follow. */
static enum facts_format get_format_of_zeros(int fd, struct facts *facts, enum facts_format broken)
{
	_cleanup_(freep) unsigned char *data = malloc(MAGIC_ZEROS_SIZE);
	ssize_t n = data ? fd_pread_all(fd, data, MAGIC_ZEROS_SIZE, 0) : -1;

	if (n < 0 || is_zero(data, (size_t)n))
		return broken;
	facts->other = magic_get_unexpected_after_zeros(data, (size_t)n);
	return FORMAT_PLAIN;
}

/* Returns the offset at which libarchive must begin: after the skippable frames of zstd and lz4.
 * Which of the two formats it is shows only there, so *filterp may change. */
static uint64_t look_behind_frames(int fd, enum facts_filter *filterp)
{
	unsigned char block[MAGIC_SIZE];
	uint64_t at = 0, size;
	ssize_t n;

	if (*filterp != FILTER_ZSTD && *filterp != FILTER_LZ4)
		return 0;

	for (int i = 0;; i++) {
		n = fd_pread_all(fd, block, sizeof(block), at);
		if (n <= 0)
			return 0; /* only skippable frames */
		size = magic_get_skippable(block, (size_t)n);
		if (size == 0 || i == PROBE_MAX_JUMPS)
			break;
		at += size;
	}
	if (at > 0 && magic_get_filter(block, (size_t)n) == FILTER_LZ4)
		*filterp = FILTER_LZ4;
	return at;
}

/* Returns whether the data unpacks to nothing, without an error. This asks the readers of
 * extraction, because libarchive takes a gzip header that is cut off for a complete file. */
static bool is_nothing(const void *data, size_t size, enum facts_filter filter)
{
	_cleanup_(stream_closep) struct stream *in = NULL;
	struct stream *plain;
	const void *piece;

	if (stream_new_memory(&in, data, size, 0) < 0 ||
	    decompress_new(&plain, in, filter, NULL) < 0)
		return false;
	in = plain;
	return stream_next(in, &piece, NULL) == 0;
}

/* Returns the format inside the compression that begins at `from`, and adds its first headers to
 * sample. broken: the result if the data cannot be decompressed. */
static enum facts_format peek_format(int fd, struct facts *facts, uint64_t from,
				     struct tar_sample *sample, enum facts_format broken)
{
	enum facts_filter filter = facts->filter, only = FILTER_NONE;
	const size_t size = filter == FILTER_LZ4 ? PROBE_PEEK_LZ4_SIZE : PROBE_PEEK_SIZE;
	_cleanup_(freep) char *data = malloc(size), *block = malloc(PROBE_PEEK_SIZE);
	_cleanup_(stream_closep) struct stream *in = NULL;
	struct stream *plain;
	size_t filled = 0, packed, take;
	const void *piece;
	bool is_whole;
	ssize_t n;

	n = data && block ? fd_pread_all(fd, data, size, from) : -1;
	is_whole = n >= 0 && from + (uint64_t)n == facts->bytes;
	if (n <= 0 || stream_new_memory(&in, data, (size_t)n, 0) < 0)
		return FORMAT_PLAIN;
	packed = (size_t)n;
	/* of these three, extraction removes one layer; libarchive removes all of the others */
	if (filter == FILTER_GZIP || filter == FILTER_ZSTD || filter == FILTER_LZ4)
		only = filter;
	if (decode_decompress(&plain, in, only, NULL) < 0)
		return decode_is_available() ? broken : FORMAT_PLAIN;
	in = plain;
	while (filled < PROBE_PEEK_SIZE && (n = stream_next(in, &piece, NULL)) > 0) {
		take = (size_t)n < PROBE_PEEK_SIZE - filled ? (size_t)n : PROBE_PEEK_SIZE - filled;
		memcpy(block + filled, piece, take);
		filled += take;
	}
	tar_sample_add(sample, block, filled, 0);
	if (filled == 0 && n == 0) {
		if (!is_whole || !is_nothing(data, packed, filter))
			return broken;
		facts->other = &magic_nothing_compressed;
		return FORMAT_PLAIN;
	}
	if (filled < MAGIC_SIZE && n < 0)
		return broken;
	if (n == 0 && is_zero((unsigned char *)block, filled))
		return broken;
	if (filled > MAGIC_SIZE)
		filled = MAGIC_SIZE;
	if (magic_get_format(block, filled) == FORMAT_TAR)
		return FORMAT_TAR;
	if (only != FILTER_NONE && magic_get_filter(block, filled) != FILTER_NONE)
		facts->other = &magic_compressed_twice;
	/* a zip or an image that is compressed again counts as a file */
	return FORMAT_PLAIN;
}

/* Reads the headers at the beginning in one read, then a few that are far apart. */
static void sample_tar(int fd, int max_jumps, struct tar_sample *sample)
{
	_cleanup_(freep) char *data = malloc(PROBE_PEEK_SIZE);
	size_t size = PROBE_PEEK_SIZE;
	uint64_t from;
	ssize_t n;

	for (int i = 0; data && i < max_jumps && !sample->ended && !sample->broken; i++) {
		from = sample->next;
		n = fd_pread_all(fd, data, size, from);
		if (n > 0)
			tar_sample_add(sample, data, (size_t)n, from);
		if (n <= 0 || sample->next == from)
			return;
		size = MAGIC_SIZE;
	}
}

/* Returns whether an estimate is enough, because reading the list of a large zip takes minutes, and
 * a mount reads it again for its index. */
static bool is_guess_enough(const struct ctx *ctx, const struct source *src)
{
	bool is_for_index = ctx->ds->method == DATASET_METHOD_MOUNT && !ctx->plan_only;

	return src->is_remote || is_for_index; /* the list of a remote zip is at its end, which
						* is not here */
}

/* Reads the exact numbers from the central directory. */
static int probe_zip(const struct ctx *ctx, const struct source *src, struct facts *facts,
		     struct error *err)
{
	_cleanup_(decode_closep) struct decode *d = NULL;
	struct member m;
	int r;

	if (is_guess_enough(ctx, src))
		facts->extract_bytes = ZIP_RATIO * facts->bytes;
	if (is_guess_enough(ctx, src) || !decode_is_available())
		return 0;
	r = decode_open_zip_file(&d, NULL, src->fd, err);
	facts->extract_bytes = facts->extract_files = 0;
	while (r == 0 && (r = decode_next(d, &m, err)) > 0) {
		facts->extract_bytes += page_round_up(m.size);
		facts->extract_files++;
		r = 0;
	}
	facts->extract_exact = r == 0;
	if (r < 0 && !plan_asks_to_open(ctx->ds) && !plan_wants_members(ctx->ds, facts)) {
		if (err)
			*err = (struct error)ERROR_INIT;
		return 0; /* a damaged zip can still be copied */
	}
	if (r == -EBADMSG || r == -ENODATA)
		r = zip_names_find_fault(src->fd, facts->bytes, err);
	return r < 0 ? damage_set_error(err, r, src->path, (uint64_t)src->st.st_size) : 0;
}

static int look_into_file(struct ctx *ctx, struct source *src, struct facts *facts,
			  struct error *err)
{
	enum facts_format broken;
	unsigned char block[MAGIC_SIZE];
	struct tar_sample sample = { 0 };
	struct estimate e;
	uint64_t from;
	ssize_t n;

	facts->promise = get_promise(src);
	broken = should_be_tar(ctx, facts->promise) ? FORMAT_TAR : FORMAT_PLAIN;
	facts->bytes = (uint64_t)src->st.st_size;
	facts->n_files = 1;
	facts->counted = true;
	if (!src->is_remote)
		copy_file_look_for_holes(src->fd, &src->st);
	facts->copy_bytes = copy_file_charge(&src->st);
	facts->copy_files = 1;
	n = fd_pread_all(src->fd, block, sizeof(block), 0);
	if (n < 0)
		return error_errno(err, (int)-n, "read %s", src->path);
	facts->filter = magic_get_filter(block, (size_t)n);
	from = look_behind_frames(src->fd, &facts->filter);
	if (facts->filter != FILTER_NONE)
		data_rlimit_set(ctx->policy.threads);
	if (facts->filter == FILTER_LZO)
		facts->format = FORMAT_PLAIN;
	else if (facts->filter)
		facts->format = peek_format(src->fd, facts, from, &sample, broken);
	else
		facts->format = magic_get_format(block, (size_t)n);
	if (facts->format == FORMAT_PLAIN && facts->filter == FILTER_NONE && !src->is_remote &&
	    should_be_zip(ctx, facts->promise) && zip_names_has_list(src->fd, facts->bytes))
		facts->format = FORMAT_ZIP;
	if (facts->format == FORMAT_PLAIN && !facts->filter && is_zero(block, (size_t)n))
		facts->format = get_format_of_zeros(src->fd, facts, broken);
	else if (facts->format == FORMAT_PLAIN && !facts->filter)
		facts->other = get_unexpected(ctx, src, facts, block, (size_t)n);
	if (facts->format == FORMAT_PLAIN)
		return 0;
	facts->n_files = 0;
	e = estimate_unpacked(src->fd, facts->bytes, facts->filter);
	if (facts->format == FORMAT_TAR && !facts->filter)
		sample_tar(src->fd, src->is_remote ? 1 : PROBE_MAX_JUMPS, &sample);
	facts->extract_bytes = page_round_up(
		facts->format == FORMAT_TAR ? tar_sample_estimate(&sample, e.bytes) : e.bytes);
	facts->extract_exact = facts->format == FORMAT_TAR && sample.ended;
	facts->extract_files = sample.ended ? sample.n_files : 0;
	if (facts->format == FORMAT_SQUASHFS)
		facts->extract_bytes = 3 * facts->bytes;
	return facts->format == FORMAT_ZIP ? probe_zip(ctx, src, facts, err) : 0;
}

/* Reads parts of the file. POSIX_FADV_RANDOM prevents read-ahead, because read-ahead that has once
 * begun continues for later readers of the pages that it has marked (cached.h). */
static int probe_file(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err)
{
	int r;

	posix_fadvise(src->fd, 0, 0, POSIX_FADV_RANDOM);
	r = look_into_file(ctx, src, facts, err);
	posix_fadvise(src->fd, 0, 0, POSIX_FADV_NORMAL);
	return r;
}

/* Adds up the sizes, which were requested when the objects were opened. */
static int probe_objects(const struct source *src, struct facts *facts)
{
	for (size_t i = 0; i < src->n_objects; i++) {
		facts->bytes += src->objects[i].size;
		facts->copy_bytes += page_round_up(src->objects[i].size);
	}
	facts->n_files = src->n_objects;
	facts->copy_files = src->n_objects + 1;
	facts->counted = true;
	return 0;
}

int probe_source(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err)
{
	*facts = (struct facts){ .kind = src->kind, .is_remote = src->is_remote };
	if (src->is_remote && src->kind != SOURCE_FILE)
		return probe_objects(src, facts);
	return src->kind == SOURCE_FILE ? probe_file(ctx, src, facts, err)
					: copy_count(ctx, src, facts, err);
}
