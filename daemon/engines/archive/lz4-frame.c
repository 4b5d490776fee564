#include "daemon/engines/archive/lz4-frame.h"

#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error.h"
#include "common/util/le.h"

/* bits of the first byte; bits 4 to 6 of the second byte are the code of the block size */
#define FLAG_VERSION 0xc0
#define FLAG_VERSION_1 0x40
#define FLAG_INDEPENDENT 0x20
#define FLAG_BLOCK_SUMS 0x10
#define FLAG_SIZE 0x08
#define FLAG_CONTENT_SUM 0x04
#define FLAG_RESERVED 0x02
#define FLAG_DICTIONARY 0x01

#define SIZE_CODE_MIN 4 /* the code of 64 KiB; each higher code is four times as large */

static unsigned get_size_code(unsigned char b)
{
	return b >> 4 & 7;
}

int lz4_frame_get_header_size(const unsigned char begin[static 2], struct error *err)
{
	if ((begin[0] & FLAG_VERSION) != FLAG_VERSION_1 || (begin[0] & FLAG_RESERVED) ||
	    (begin[1] & 0x8f) || get_size_code(begin[1]) < SIZE_CODE_MIN)
		return error_set(err, EBADMSG, "malformed lz4 frame header");
	if (begin[0] & FLAG_DICTIONARY) {
		error_set(err, EINVAL, "the lz4 data needs a dictionary to be unpacked");
		return error_set_hint(err, -EINVAL, "pack it again without one");
	}
	return 2 + (begin[0] & FLAG_SIZE ? 8 : 0) + 1;
}

int lz4_frame_parse(struct lz4_frame *f, const unsigned char *header, size_t size,
		    struct error *err)
{
	if ((XXH32(header, size - 1, 0) >> 8 & 0xff) != header[size - 1])
		return error_set(err, EBADMSG, "malformed lz4 frame header: bad checksum");
	*f = (struct lz4_frame){
		.max_block = (size_t)1 << (8 + 2 * get_size_code(header[1])),
		.linked = !(header[0] & FLAG_INDEPENDENT),
		.block_sums = header[0] & FLAG_BLOCK_SUMS,
		.content_sum = header[0] & FLAG_CONTENT_SUM,
		.has_size = header[0] & FLAG_SIZE,
	};
	if (f->has_size)
		f->size = le_u64(header + 2);
	return 0;
}
