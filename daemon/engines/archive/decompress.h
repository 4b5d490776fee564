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
 * filter is not FILTER_NONE. in is consumed on success, and read to its end before the new stream
 * ends. Several frames one after the other are one; behind the last there may be zeros, nothing
 * else. -ENODATA: cut off; -EBADMSG: damaged; -EINVAL: sound, but not to be opened here.
 *
 * The work is done in the thread that reads: put stream_new_ahead() behind it.
 */
int decompress_new(struct stream **sp, struct stream *in, enum facts_filter filter,
		   struct error *err);
