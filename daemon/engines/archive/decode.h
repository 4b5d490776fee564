/*
 * decode: compressed streams and archives as our own words. Only decode.c and archive-late.c know
 * libarchive.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/dataset/facts.h"
#include "common/util/cleanup.h"

struct stage_io;
struct error;
struct stream;
struct zip_entry;

/* Returns true if libarchive can be loaded. */
bool decode_is_available(void);

/*
 * Makes a stream of the decompressed content of `in`: gzip, zstd, lz4, xz, bzip2, lzma, lzip, also
 * several frames one after the other. in is consumed on success. A stream that ends early is an
 * error. Data after the end of the compressed data is not checked. only: FILTER_GZIP, FILTER_ZSTD
 * or FILTER_LZ4 removes this layer and no other; FILTER_NONE removes all layers.
 */
int decode_decompress(struct stream **sp, struct stream *in, enum facts_filter only,
		      struct error *err);

/* Returns the size of the compressed data of a decode_decompress() stream. Called after its end. */
uint64_t decode_get_consumed(const struct stream *s);
/* Reads the rest of `in`. */
int decode_drain_source(struct stream *s, struct error *err);

enum member_type {
	MEMBER_FILE,
	MEMBER_DIR,
	MEMBER_SYMLINK,
	MEMBER_HARDLINK,
	MEMBER_OTHER,	/* devices, FIFOs, sockets; extraction refuses them */
	MEMBER_PART,	/* the rest of a file that began in another volume (tar -M) */
	MEMBER_NO_LINK, /* a link without a target */
};

/* One entry of an archive. Its texts are lent until the next entry. */
struct member {
	enum member_type type;
	const char *path;
	const char *link; /* target of a link; otherwise NULL */
	mode_t mode;
	int64_t mtime;
	long mtime_ns;
	bool has_mtime;
	uint64_t size;
	bool sparse;
	/* Only for a zip in a file: its entry in the central directory, and the offset of its data.
	 * Otherwise NULL and 0. */
	const struct zip_entry *entry;
	uint64_t start;
};

struct decode;

/* Opens a tar from a stream, which is consumed on success. */
int decode_open_tar(struct decode **dp, struct stream *in, struct error *err);
/* Opens a zip: from a file by its central directory (io: see seek_file_new()), or from a stream
 * (consumed on success) by the headers in it. */
int decode_open_zip_file(struct decode **dp, struct stage_io *io, int fd, struct error *err);
int decode_open_zip_stream(struct decode **dp, struct stream *in, struct error *err);
void decode_close(struct decode *d);
DEFINE_FREEP(struct decode, decode_close)

/* All functions below return -ENODATA if the archive ends too early, and -EBADMSG if it is damaged.
 * The text says how, for damage_set_error(). */

/* Gets the next member. Returns 1, 0 at the end, or -errno. */
int decode_next(struct decode *d, struct member *m, struct error *err);

/* Gets the next piece of the member's data, lent until the next call. Holes are skipped. Returns 1,
 * 0 at the end, or -errno. */
int decode_read(struct decode *d, const void **datap, size_t *sizep, uint64_t *offsetp,
		struct error *err);

/*
 * Reads a tar to the end of its stream, and checks that it ends with two blocks of zeros, followed
 * by zeros only. -EINVAL: other data follows. odd_end: as in struct piece_source, or NULL.
 */
int decode_finish(struct decode *d, const char **odd_end, struct error *err);
