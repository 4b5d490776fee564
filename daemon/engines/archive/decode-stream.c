/*
 * The decompressed content of a file as a stream, made by libarchive's reader `raw` with all its
 * decompressors. The readers of archives in decode.c get that stream, and decompress nothing
 * themselves.
 */
#include "daemon/engines/archive/decode.h"

#include <errno.h>
#include <stdlib.h>

#include <archive.h>
#include <archive_entry.h>

#include "common/util/error.h"
#include "daemon/engines/archive/archive-late.h"
#include "daemon/engines/archive/decode-error.h"
#include "daemon/engines/archive/decode-internal.h"
#include "daemon/engines/archive/stream.h"

bool decode_is_available(void)
{
	return archive_late_load();
}

int decode_error_new(struct error *err)
{
	return archive_late_load() ? error_set(err, ENOMEM, "out of memory")
				   : error_set(err, ENOSYS,
					       "this node has no libarchive, which is needed here");
}

int decode_take_error(struct archive *a, const struct error *in_error, struct error *err)
{
	const char *text = archive_error_string(a);
	int e = archive_errno(a);

	if (in_error && in_error->code) {
		if (err)
			*err = *in_error;
		return in_error->code;
	}
	return decode_error_set(e, text, err);
}

struct decompress {
	struct stream stream;
	struct stream *in;
	struct archive *a;
	struct error in_error;
	bool is_empty;
};

static la_ssize_t decompress_read(struct archive *a, void *arg, const void **datap)
{
	struct decompress *u = arg;
	ssize_t n = stream_next(u->in, datap, &u->in_error);

	if (n < 0)
		archive_set_error(a, (int)-n, "%s", u->in_error.text);
	return n < 0 ? -1 : n;
}

static ssize_t decompress_next(struct stream *s, const void **datap, struct error *err)
{
	struct decompress *u = (struct decompress *)s;
	la_int64_t offset;
	size_t size;
	int r;

	if (u->is_empty)
		return 0;
	do {
		r = archive_read_data_block(u->a, datap, &size, &offset);
		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK)
			return decode_take_error(u->a, &u->in_error, err);
	} while (size == 0);
	return (ssize_t)size;
}

static void decompress_close(struct stream *s)
{
	struct decompress *u = (struct decompress *)s;

	archive_read_free(u->a);
	stream_close(u->in);
	free(u);
}

/* Attack: gzip data that unpacks to itself. libarchive removes up to 25 layers, and needs a minute
 * of CPU time for these. */
static void support_filters(struct archive *a, enum facts_filter only)
{
	if (only == FILTER_GZIP) {
		archive_read_append_filter(a, ARCHIVE_FILTER_GZIP);
	} else if (only == FILTER_ZSTD) {
		archive_read_append_filter(a, ARCHIVE_FILTER_ZSTD);
	} else if (only == FILTER_LZ4) {
		archive_read_append_filter(a, ARCHIVE_FILTER_LZ4);
	} else {
		archive_read_support_filter_gzip(a);
		archive_read_support_filter_zstd(a);
		archive_read_support_filter_lz4(a);
		archive_read_support_filter_xz(a);
		archive_read_support_filter_bzip2(a);
		archive_read_support_filter_lzma(a); /* liblzma reads all three */
		archive_read_support_filter_lzip(a);
		archive_read_support_filter_compress(a);
	}
}

static struct archive *new_decompress_archive(enum facts_filter only)
{
	struct archive *a = archive_read_new();

	if (!a)
		return NULL;
	support_filters(a, only);
	archive_read_support_format_raw(a);
	archive_read_support_format_empty(a); /* without it, empty content would be an error */
	return a;
}

int decode_decompress(struct stream **sp, struct stream *in, enum facts_filter only,
		      struct error *err)
{
	static const struct stream_ops ops = { decompress_next, decompress_close };
	struct decompress *u = calloc(1, sizeof(*u));
	struct archive_entry *entry;
	int r;

	if (!u || !(u->a = new_decompress_archive(only))) {
		free(u);
		return decode_error_new(err);
	}
	u->stream.ops = &ops;
	u->in = in;
	r = archive_read_open(u->a, u, NULL, decompress_read, NULL);
	if (r == ARCHIVE_OK)
		r = archive_read_next_header(u->a, &entry);
	u->is_empty = r == ARCHIVE_EOF && !archive_errno(u->a) && !u->in_error.code;
	if (r != ARCHIVE_OK && !u->is_empty) {
		r = decode_take_error(u->a, &u->in_error, err);
		archive_read_free(u->a);
		free(u);
		return r;
	}
	*sp = &u->stream;
	return 0;
}

uint64_t decode_get_consumed(const struct stream *s)
{
	const struct decompress *u = (const struct decompress *)s;

	return (uint64_t)archive_filter_bytes(u->a, -1);
}

int decode_drain_source(struct stream *s, struct error *err)
{
	return stream_drain(((struct decompress *)s)->in, err);
}
