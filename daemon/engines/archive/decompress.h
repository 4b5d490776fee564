/*
 * decompress: the decompressed content of a stream, made by the fastest library: gzip, zstd and lz4
 * by their own libraries, other formats (and those for which this build has no library) by
 * decode_decompress().
 */
#pragma once

#include "common/dataset/facts.h"

struct error;
struct stream;

/*
 * Makes a stream of the decompressed content. filter must not be FILTER_NONE. in is consumed on
 * success, and read to its end before the new stream ends. Several frames one after the other are
 * one content. After the last frame, only zeros may follow. -ENODATA: cut off; -EBADMSG: damaged;
 * -EINVAL: sound, but this build cannot read it.
 *
 * The thread that reads does the work. stream_new_ahead() moves it to another thread.
 */
int decompress_new(struct stream **sp, struct stream *in, enum facts_filter filter,
		   struct error *err);
