/*
 * xz has an index at its end with the size of each block: exact, for each of its streams. zstd may
 * have the size in the first frame's header. It is exact if that frame is the whole file, which is
 * known only after reading, so it is used as a hint. gzip's last four bytes are the size of the
 * last member modulo 4 GiB; in a file that is cut off they can be anything. They are used if the
 * compression ratio of the beginning, which is unpacked for this, is similar. For other formats,
 * the size is estimated by a ratio. After a wrong estimate, the reservation has to grow while the
 * data is written.
 */
#include "daemon/engines/archive/estimate.h"

#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/le.h"
#include "daemon/engines/archive/gunzip.h"

#define ESTIMATE_RATIO 3
#define ESTIMATE_SAMPLE_SIZE (256 << 10)
#define ESTIMATE_SAMPLE_MAX (64 << 20)
#define XZ_FOOTER_SIZE 12
#define XZ_MAX_INDEX (4 << 20)
#define XZ_MAX_STREAMS 4096

static bool read_at(int fd, void *buf, size_t size, uint64_t offset)
{
	return fd_pread_all(fd, buf, size, offset) == (ssize_t)size;
}

/* Reads a number of the xz index, with seven bits in each byte. */
static bool read_varint(const unsigned char **p, const unsigned char *end, uint64_t *valuep)
{
	uint64_t v = 0;

	for (int shift = 0; *p < end && shift < 63; shift += 7) {
		unsigned char c = *(*p)++;

		v |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80)) {
			*valuep = v;
			return true;
		}
	}
	return false;
}

/* Reads the records of one index. Adds the decompressed size, and the size of the blocks in the
 * file. */
static bool read_index(const unsigned char *p, size_t size, uint64_t *unpackedp, uint64_t *packedp)
{
	const unsigned char *end = p + size;
	uint64_t n, packed, unpacked;

	if (size < 8 || *p++ != 0 || !read_varint(&p, end, &n))
		return false;
	while (n-- > 0) {
		if (!read_varint(&p, end, &packed) || !read_varint(&p, end, &unpacked))
			return false;
		*packedp += (packed + 3) & ~3ULL;
		*unpackedp += unpacked;
	}
	return true;
}

/* Reads the stream that ends at *endp, and moves *endp to its beginning. */
static bool read_xz_stream(int fd, uint64_t *endp, uint64_t *unpackedp)
{
	unsigned char footer[XZ_FOOTER_SIZE];
	_cleanup_(freep) unsigned char *index = NULL;
	uint64_t size, packed = 0;

	if (*endp < 2 * XZ_FOOTER_SIZE ||
	    !read_at(fd, footer, sizeof(footer), *endp - sizeof(footer)) ||
	    memcmp(footer + 10, "YZ", 2))
		return false;
	size = (le_read(footer + 4, 4) + 1) * 4;
	if (size > XZ_MAX_INDEX || size + 2 * XZ_FOOTER_SIZE > *endp)
		return false;
	index = malloc(size);
	if (!index || !read_at(fd, index, size, *endp - XZ_FOOTER_SIZE - size) ||
	    !read_index(index, size, unpackedp, &packed))
		return false;
	size += packed + 2 * XZ_FOOTER_SIZE; /* the header has the same size as the footer */
	if (size > *endp)
		return false;
	*endp -= size;
	return true;
}

static bool skip_xz_padding(int fd, uint64_t *endp)
{
	unsigned char pad[4];

	while (*endp >= 4 && read_at(fd, pad, 4, *endp - 4) && le_read(pad, 4) == 0)
		*endp -= 4;
	return true;
}

static bool estimate_xz(int fd, uint64_t size, struct estimate *e)
{
	uint64_t end = size, unpacked = 0;

	for (int i = 0; end > 0 && i < XZ_MAX_STREAMS; i++) {
		if (!skip_xz_padding(fd, &end) || !read_xz_stream(fd, &end, &unpacked))
			return false;
	}
	*e = (struct estimate){ unpacked, end == 0 };
	return end == 0;
}

/* Frame_Header: descriptor, window (unless single segment), dictionary, content size. */
static bool estimate_zstd(int fd, uint64_t size, struct estimate *e)
{
	static const unsigned char dictionary_sizes[] = { 0, 1, 2, 4 }, sizes[] = { 0, 2, 4, 8 };
	unsigned char h[18] = { 0 };
	bool single;
	size_t at, n;

	if (size < sizeof(h) || !read_at(fd, h, sizeof(h), 0) || le_read(h, 4) != 0xfd2fb528)
		return false;
	single = h[4] & 0x20;
	n = sizes[h[4] >> 6];
	if (n == 0 && single)
		n = 1;
	if (n == 0)
		return false;
	at = (single ? 5u : 6u) + dictionary_sizes[h[4] & 3];
	e->bytes = le_read(h + at, n) + (n == 2 ? 256 : 0);
	e->exact = e->bytes >= size;
	return e->exact;
}

/* Estimates the decompressed size of the file from its beginning. */
static uint64_t guess_gzip(int fd, uint64_t size)
{
	_cleanup_(freep) void *data = malloc(ESTIMATE_SAMPLE_SIZE);
	ssize_t n = data ? fd_pread_all(fd, data, ESTIMATE_SAMPLE_SIZE, 0) : -1;
	uint64_t used, sum;

	sum = n <= 0 ? 0 : gunzip_count(data, (size_t)n, ESTIMATE_SAMPLE_MAX, &used);
	return sum == 0 || used == 0 ? 0 : (uint64_t)((double)sum / (double)used * (double)size);
}

static bool estimate_gzip(int fd, uint64_t size, struct estimate *e)
{
	uint64_t guess = size < 18 ? 0 : guess_gzip(fd, size), said;
	unsigned char tail[4];

	if (guess == 0 || !read_at(fd, tail, 4, size - 4))
		return false;
	said = le_read(tail, 4);
	while (said < guess / 4)
		said += 1ULL << 32;
	e->exact = said / 4 <= guess && said < 1ULL << 32;
	e->bytes = said / 4 <= guess ? said : guess;
	return true;
}

struct estimate estimate_unpacked(int fd, uint64_t size, enum facts_filter filter)
{
	struct estimate e = { ESTIMATE_RATIO * size, false };
	bool known = false;

	if (filter == FILTER_NONE)
		return (struct estimate){ size, true };
	if (filter == FILTER_XZ)
		known = estimate_xz(fd, size, &e);
	else if (filter == FILTER_ZSTD)
		known = estimate_zstd(fd, size, &e);
	else if (filter == FILTER_GZIP)
		known = estimate_gzip(fd, size, &e);
	if (!known)
		e = (struct estimate){ ESTIMATE_RATIO * size, false };
	return e;
}
