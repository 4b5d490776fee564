/*
 * What gzip, zstd and lz4 packed is unpacked to the same bytes, or not at all.
 */
#include "tests/unit/unit.h"

#include <errno.h>

#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include "common/util/error.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/decompress.h"

#define MAX_SIZE (9u << 20)
#define MAX_PACKED (2 * MAX_SIZE)

static unsigned char content[MAX_SIZE], packed[MAX_PACKED], unpacked[MAX_SIZE + 4096];

/* Memcheck takes ten minutes for all of it. There it gets less of the same: two blocks of lz4's
 * largest, each step and each bit of a byte in its turn, and some bytes at a time where it is one
 * otherwise. */
static size_t max_size = MAX_SIZE, stride = 1, small_step = 1;
static int n_damages = 20;

/* ---- packers: size of what is at out ---- */

static size_t pack_gzip(const void *data, size_t size, unsigned char *out)
{
	z_stream z = { .next_in = (void *)data,
		       .avail_in = (uInt)size,
		       .next_out = out,
		       .avail_out = (uInt)(packed + MAX_PACKED - out) };

	assert_int_equal(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static size_t pack_zstd_with(ZSTD_cParameter p, int value, const void *data, size_t size,
			     unsigned char *out)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t n;

	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(c, p, value);
	n = ZSTD_compress2(c, out, (size_t)(packed + MAX_PACKED - out), data, size);
	assert_false(ZSTD_isError(n));
	ZSTD_freeCCtx(c);
	return n;
}

static size_t pack_zstd(const void *data, size_t size, unsigned char *out)
{
	return pack_zstd_with(ZSTD_c_compressionLevel, 1, data, size, out);
}

/* As in a pipe: the size of the content is not known. */
static size_t pack_zstd_piped(const void *data, size_t size, unsigned char *out)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	ZSTD_inBuffer in = { data, size, 0 };
	ZSTD_outBuffer o = { out, (size_t)(packed + MAX_PACKED - out), 0 };

	ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	in.size = size / 2;
	while (ZSTD_compressStream2(c, &o, &in, ZSTD_e_flush) > 0)
		;
	in.size = size;
	while (ZSTD_compressStream2(c, &o, &in, ZSTD_e_end) > 0)
		;
	ZSTD_freeCCtx(c);
	return o.pos;
}

static size_t pack_lz4_with(LZ4F_frameInfo_t info, const void *data, size_t size,
			    unsigned char *out)
{
	LZ4F_preferences_t p = { .frameInfo = info };
	size_t n = LZ4F_compressFrame(out, (size_t)(packed + MAX_PACKED - out), data, size, &p);

	assert_false(LZ4F_isError(n));
	return n;
}

static size_t pack_lz4(const void *data, size_t size, unsigned char *out)
{
	LZ4F_frameInfo_t info = { .blockSizeID = LZ4F_max4MB,
				  .blockMode = LZ4F_blockIndependent,
				  .contentChecksumFlag = LZ4F_contentChecksumEnabled,
				  .contentSize = size };

	return pack_lz4_with(info, data, size, out);
}

static size_t pack_lz4_small(const void *data, size_t size, unsigned char *out)
{
	LZ4F_frameInfo_t info = { .blockSizeID = LZ4F_max64KB,
				  .blockMode = LZ4F_blockIndependent,
				  .contentChecksumFlag = LZ4F_contentChecksumEnabled,
				  .blockChecksumFlag = LZ4F_blockChecksumEnabled };

	return pack_lz4_with(info, data, size, out);
}

static size_t pack_lz4_linked(const void *data, size_t size, unsigned char *out)
{
	LZ4F_frameInfo_t info = { .blockSizeID = LZ4F_max256KB,
				  .blockMode = LZ4F_blockLinked,
				  .contentChecksumFlag = LZ4F_contentChecksumEnabled };

	return pack_lz4_with(info, data, size, out);
}

/* Blocks of odd sizes that refer to each other */
static size_t pack_lz4_flushed(const void *data, size_t size, unsigned char *out)
{
	LZ4F_preferences_t p = { .frameInfo = {
					 .blockSizeID = LZ4F_max64KB,
					 .blockMode = LZ4F_blockLinked,
					 .contentChecksumFlag = LZ4F_contentChecksumEnabled } };
	size_t room = (size_t)(packed + MAX_PACKED - out), n, part, at = 0;
	LZ4F_cctx *c;

	LZ4F_createCompressionContext(&c, LZ4F_VERSION);
	n = LZ4F_compressBegin(c, out, room, &p);
	for (unsigned i = 0; at < size; i++, at += part) {
		part = 1 + i * 7919 % 50000;
		part = part < size - at ? part : size - at;
		n += LZ4F_compressUpdate(c, out + n, room - n, (const char *)data + at, part, NULL);
		n += LZ4F_flush(c, out + n, room - n, NULL);
	}
	n += LZ4F_compressEnd(c, out + n, room - n, NULL);
	LZ4F_freeCompressionContext(c);
	return n;
}

static const struct codec {
	const char *name;
	enum facts_filter filter;
	size_t (*pack)(const void *data, size_t size, unsigned char *out);
} codecs[] = {
	{ "gzip", FILTER_GZIP, pack_gzip },
	{ "zstd", FILTER_ZSTD, pack_zstd },
	{ "zstd, piped", FILTER_ZSTD, pack_zstd_piped },
	{ "lz4", FILTER_LZ4, pack_lz4 },
	{ "lz4, small blocks", FILTER_LZ4, pack_lz4_small },
	{ "lz4, linked blocks", FILTER_LZ4, pack_lz4_linked },
	{ "lz4, flushed", FILTER_LZ4, pack_lz4_flushed },
};

/* ---- unpacking ---- */

static int new_stream(struct stream **sp, enum facts_filter filter, const void *data, size_t size,
		      size_t step)
{
	struct stream *in;

	assert_int_equal(stream_new_memory(&in, data, size, step), 0);
	if (decompress_new(sp, in, filter, NULL) == 0)
		return 0;
	stream_close(in);
	return -EBADMSG;
}

/* 0 with *sizep bytes in unpacked, or -errno. */
static int unpack(enum facts_filter filter, const void *data, size_t size, size_t step,
		  size_t *sizep, struct error *err)
{
	struct stream *s;
	struct block *b;
	bool odd = false;
	int r;

	*sizep = 0;
	r = new_stream(&s, filter, data, size, step);
	if (r < 0)
		return r;
	while ((r = stream_next_block(s, &b, err)) > 0) {
		assert_false(odd); /* only the last may be */
		assert_true(b->size > 0 && *sizep + b->size <= sizeof(unpacked));
		odd = b->size % STREAM_ALIGN;
		memcpy(unpacked + *sizep, b->data, b->size);
		*sizep += b->size;
		block_put(b);
	}
	stream_close(s);
	return r;
}

static void check(const struct codec *c, size_t n_packed, size_t size, size_t step)
{
	struct error err = ERROR_INIT;
	size_t n;

	if (unpack(c->filter, packed, n_packed, step, &n, &err) < 0)
		fail_msg("%s of %zu in steps of %zu: %s", c->name, size, step, err.text);
	if (n != size || memcmp(unpacked, content, size))
		fail_msg("%s of %zu in steps of %zu differs", c->name, size, step);
}

/* Words that come again, and noise */
static void fill_content(void)
{
	uint32_t x = 1;

	for (size_t i = 0; i < sizeof(content); i++) {
		x = x * 1664525 + 1013904223;
		content[i] = i > 64 && (x >> 28) ? content[i - 1 - (x >> 8) % 3 * 20]
						 : (unsigned char)(x >> 24);
	}
}

static void test_round_trips_around_block_edges(void **state)
{
	static const size_t sizes[] = { 0,
					1,
					4095,
					4096,
					4097,
					65535,
					65536,
					65537,
					BLOCK_SIZE - 1,
					BLOCK_SIZE,
					BLOCK_SIZE + 1,
					3 * BLOCK_SIZE + 7,
					(4u << 20) + 1,
					MAX_SIZE };
	static const size_t steps[] = { 0, 4096, 10007 };
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
			if (sizes[j] > max_size)
				continue;
			n = codecs[i].pack(content, sizes[j], packed);
			for (size_t k = (i + j) % stride % 3; k < ARRAY_SIZE(steps); k += stride)
				check(&codecs[i], n, sizes[j], steps[k]);
			if (sizes[j] < 5000)
				check(&codecs[i], n, sizes[j], 1);
		}
	}
}

static void test_several_one_behind_the_other(void **state)
{
	static const size_t sizes[] = { 1000, 0, 65536, 3, BLOCK_SIZE, 2 * BLOCK_SIZE + 100, 1 };
	size_t n, size;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = size = 0;
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
			/* other lz4 frames in between: blocks of another size, linked or not */
			const struct codec *c = codecs[i].filter == FILTER_LZ4
							? &codecs[3 + (i + j) % 4]
							: &codecs[i];

			n += c->pack(content + size, sizes[j], packed + n);
			size += sizes[j];
		}
		check(&codecs[i], n, size, 0);
		check(&codecs[i], n, size, small_step);
	}
}

static void test_cut_off_at_every_byte(void **state)
{
	struct error err = ERROR_INIT;
	size_t n, got;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = codecs[i].pack(content, 3000, packed);
		for (size_t cut = 0; cut < n; cut += stride) {
			for (size_t step = 0; step < 2; step++) {
				int r = unpack(codecs[i].filter, packed, cut, step, &got, &err);

				if (r != -ENODATA)
					fail_msg("%s cut to %zu of %zu: %d %s", codecs[i].name, cut,
						 n, r, err.text);
			}
		}
	}
}

static void test_what_is_flipped_is_not_taken_for_good(void **state)
{
	size_t n, got;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = codecs[i].pack(content, 1500, packed);
		for (size_t bit = 0; bit < 8 * n; bit += stride) {
			packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
			r = unpack(codecs[i].filter, packed, n, 0, &got, NULL);
			if (r == 0 && (got != 1500 || memcmp(unpacked, content, got)))
				fail_msg("%s with bit %zu flipped", codecs[i].name, bit);
			if (r < 0 && r != -ENODATA && r != -EBADMSG && r != -EINVAL)
				fail_msg("%s with bit %zu flipped: %d", codecs[i].name, bit, r);
			packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
	}
}

static void test_damage_far_behind(void **state)
{
	size_t n, got, at;
	uint32_t x = 7;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = codecs[i].pack(content, max_size, packed);
		for (int j = 0; j < n_damages; j++) {
			x = x * 1664525 + 1013904223;
			at = (uint64_t)x * n >> 32;
			packed[at] ^= 0x55;
			assert_true(unpack(codecs[i].filter, packed, n, 0, &got, NULL) < 0);
			packed[at] ^= 0x55;
			assert_int_equal(unpack(codecs[i].filter, packed, at, 0, &got, NULL),
					 -ENODATA);
		}
	}
}

static void test_behind_it_there_may_be_zeros_and_nothing_else(void **state)
{
	static const struct {
		const char *rest;
		size_t size;
		int expect;
	} cases[] = {
		{ "\0", 1, 0 },
		{ "\0\0\0\0\0\0\0\0", 8, 0 },
		{ "\0\0\0\0x", 5, -EINVAL },
		{ "rubbish", 7, -EINVAL },
		/* for gzip a member, which is damaged */
		{ "\x1f\x8b\x08\0rubbis\xff\xff\xff\xff", 14, -EBADMSG },
	};
	struct error err = ERROR_INIT;
	size_t n, got;
	int expect;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = codecs[i].pack(content, 5000, packed);
		for (size_t j = 0; j < ARRAY_SIZE(cases); j++) {
			expect = cases[j].expect;
			if (expect == -EBADMSG && codecs[i].filter != FILTER_GZIP)
				expect = -EINVAL;
			memcpy(packed + n, cases[j].rest, cases[j].size);
			for (size_t step = 0; step < 2; step++)
				assert_int_equal(unpack(codecs[i].filter, packed, n + cases[j].size,
							step, &got, &err),
						 expect);
			if (expect == 0)
				assert_int_equal(got, 5000);
		}
	}
	assert_non_null(strstr(err.text, "garbage"));
}

static void test_frames_to_skip_are_skipped(void **state)
{
	static const char skippable[] = "\x53\x2a\x4d\x18\7\0\0\0content";
	size_t n;

	for (size_t i = 1; i < ARRAY_SIZE(codecs); i++) {
		memcpy(packed, skippable, 15);
		n = 15 + codecs[i].pack(content, 1000, packed + 15);
		memcpy(packed + n, skippable, 15);
		n += 15;
		check(&codecs[i], n, 1000, 0);
		check(&codecs[i], n, 1000, 1);
	}
}

static void test_what_is_not_opened_here_says_why(void **state)
{
	static const struct {
		enum facts_filter filter;
		const char *data;
		size_t size;
		const char *word;
	} cases[] = {
		/* a window of 256 MiB; a dictionary; the same for lz4, and its legacy format */
		{ FILTER_ZSTD, "\x28\xb5\x2f\xfd\x00\x90\1\0\0", 9, "--long=27" },
		{ FILTER_ZSTD, "\x28\xb5\x2f\xfd\x01\x58\7\1\0\0", 10, "dictionary" },
		{ FILTER_LZ4, "\4\x22\x4d\x18\x61\x40\7\0\0\0\0", 11, "dictionary" },
		{ FILTER_LZ4, "\2\x21\x4c\x18\0\0\0\0", 8, "without -l" },
	};
	struct error err = ERROR_INIT;
	size_t got;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(
			unpack(cases[i].filter, cases[i].data, cases[i].size, 0, &got, &err),
			-EINVAL);
		assert_non_null(strstr(err.text, cases[i].word));
	}
}

static void test_the_longest_window_of_zstd_by_default_is_opened(void **state)
{
	size_t n = pack_zstd_with(ZSTD_c_windowLog, 27, content, max_size, packed);

	check(&codecs[1], n, max_size, 4096);
}

/* Whoever gives up closes the stream with blocks still held, which stay good. */
static void test_closed_in_the_middle(void **state)
{
	struct block *held[2];
	struct stream *s;
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = codecs[i].pack(content, max_size, packed);
		assert_int_equal(new_stream(&s, codecs[i].filter, packed, n, 65536), 0);
		assert_int_equal(stream_new_ahead(&s, s, NULL), 0);
		assert_int_equal(stream_next_block(s, &held[0], NULL), 1);
		assert_int_equal(stream_next_block(s, &held[1], NULL), 1);
		stream_close(s);
		assert_memory_equal(held[0]->data, content, held[0]->size);
		assert_memory_equal(held[1]->data, content + held[0]->size, held[1]->size);
		block_put(held[0]);
		block_put(held[1]);
	}
}

/* Two blocks may be kept for ever, the rest comes all the same. */
static void test_held_blocks_are_no_deadlock(void **state)
{
	struct block *held[STREAM_MAY_HOLD], *b;
	struct stream *s;
	size_t n, size;

	for (size_t i = 0; i < ARRAY_SIZE(codecs); i++) {
		n = codecs[i].pack(content, max_size, packed);
		assert_int_equal(new_stream(&s, codecs[i].filter, packed, n, 65536), 0);
		assert_int_equal(stream_new_ahead(&s, s, NULL), 0);
		size = 0;
		for (size_t j = 0; j < STREAM_MAY_HOLD; j++) {
			assert_int_equal(stream_next_block(s, &held[j], NULL), 1);
			size += held[j]->size;
		}
		while (stream_next_block(s, &b, NULL) > 0) {
			assert_memory_equal(b->data, content + size, b->size);
			size += b->size;
			block_put(b);
		}
		assert_int_equal(size, max_size);
		for (size_t j = 0; j < STREAM_MAY_HOLD; j++)
			block_put(held[j]);
		stream_close(s);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips_around_block_edges),
		cmocka_unit_test(test_several_one_behind_the_other),
		cmocka_unit_test(test_cut_off_at_every_byte),
		cmocka_unit_test(test_what_is_flipped_is_not_taken_for_good),
		cmocka_unit_test(test_damage_far_behind),
		cmocka_unit_test(test_behind_it_there_may_be_zeros_and_nothing_else),
		cmocka_unit_test(test_frames_to_skip_are_skipped),
		cmocka_unit_test(test_what_is_not_opened_here_says_why),
		cmocka_unit_test(test_the_longest_window_of_zstd_by_default_is_opened),
		cmocka_unit_test(test_closed_in_the_middle),
		cmocka_unit_test(test_held_blocks_are_no_deadlock),
	};

	if (unit_is_under_valgrind()) {
		max_size = (4u << 20) + 1;
		stride = 7;
		small_step = 251;
		n_damages = 3;
	}
	fill_content();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
