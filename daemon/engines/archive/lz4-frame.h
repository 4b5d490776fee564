/*
 * lz4-frame: the header of an lz4 frame, from bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define LZ4_FRAME_MAGIC 0x184d2204u
#define LZ4_FRAME_LEGACY_MAGIC 0x184c2102u
#define LZ4_FRAME_SKIPPABLE_MAGIC 0x184d2a50u /* and the next 15 numbers */
#define LZ4_FRAME_MAX_HEADER_SIZE 15	      /* without the magic number */

struct lz4_frame {
	size_t max_block; /* maximum size of a decompressed block in bytes */
	bool linked;	  /* blocks refer to earlier ones */
	bool block_sums, content_sum;
	bool has_size;
	uint64_t size;
};

/* Returns the size of the header that begins with these two bytes, or -EBADMSG, -EINVAL. */
int lz4_frame_get_header_size(const unsigned char begin[static 2], struct error *err);

/* Parses a header. size: from lz4_frame_get_header_size(). Returns 0 or -EBADMSG. */
int lz4_frame_parse(struct lz4_frame *f, const unsigned char *header, size_t size,
		    struct error *err);
