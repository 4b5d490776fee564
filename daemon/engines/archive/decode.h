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

/* Could libarchive be loaded? */
bool decode_is_available(void);

/*
 * A stream of what `in` holds unwrapped: gzip, zstd, lz4, xz, bzip2, lzma, lzip, several frames
 * one after the other as well. in is consumed on success. A stream that ends early is an error;
 * what is behind the end of the compressed data is not looked at.
 */
int decode_decompress(struct stream **sp, struct stream *in, struct error *err);

/* Is what a decode_decompress() stream unwraps wrapped more than once? */
bool decode_is_wrapped_twice(const struct stream *s);
/* Bytes of `in` that the compressed data of a decode_decompress() stream took; after its end. */
uint64_t decode_get_consumed(const struct stream *s);
/* Reads what is left of `in`. */
int decode_drain_source(struct stream *s, struct error *err);

enum member_type {
	MEMBER_FILE,
	MEMBER_DIR,
	MEMBER_SYMLINK,
	MEMBER_HARDLINK,
	MEMBER_OTHER, /* devices, FIFOs, sockets: refused by who extracts */
};

/* One entry of an archive. Texts are lent until the next one. */
struct member {
	enum member_type type;
	const char *path;
	const char *link; /* target of a link, else NULL */
	mode_t mode;
	int64_t mtime;
	long mtime_ns;
	bool has_mtime;
	uint64_t size;
	bool sparse;
	/* Of a zip in a file, else NULL and 0: what its list says, and where the data begins. */
	const struct zip_entry *entry;
	uint64_t start;
};

struct decode;

/* A tar from a stream, which is consumed on success. */
int decode_open_tar(struct decode **dp, struct stream *in, struct error *err);
/* A zip: from a file by its central directory (io: see seek_file_new()), or from a stream
 * (consumed) by what comes along. */
int decode_open_zip_file(struct decode **dp, struct stage_io *io, int fd, struct error *err);
int decode_open_zip_stream(struct decode **dp, struct stream *in, struct error *err);
void decode_close(struct decode *d);
DEFINE_FREEP(struct decode, decode_close)

/* Of all below: -ENODATA for what ends too early, -EBADMSG for what is damaged; the text says how,
 * for damage_set_error(). */

/* The next member. 1, 0 at the end, or -errno. */
int decode_next(struct decode *d, struct member *m, struct error *err);

/* The next piece of the member's data, lent until the next call; holes are passed over. 1, 0,
 * -errno. */
int decode_read(struct decode *d, const void **datap, size_t *sizep, uint64_t *offsetp,
		struct error *err);

/*
 * After the end of a tar: were there two blocks of zeros, and is there nothing but zeros behind
 * them? Reads the stream to its end. -EINVAL: there is more. odd_end: as in struct piece_source, or
 * NULL.
 */
int decode_finish(struct decode *d, const char **odd_end, struct error *err);
