#include "tests/unit/unit.h"

#include "daemon/engines/archive/magic.h"

static void test_filters(void **state)
{
	static const struct {
		const char *data;
		size_t size;
		enum facts_filter expect;
	} cases[] = {
		{ "\x1f\x8b\x08\0", 4, FILTER_GZIP },
		{ "\x1f\x8b", 2, FILTER_NONE },
		{ "\x1f\x8b\x07\0", 4, FILTER_NONE },
		{ "\x28\xb5\x2f\xfd", 4, FILTER_ZSTD },
		{ "\x50\x2a\x4d\x18", 4, FILTER_ZSTD }, /* a skippable frame */
		{ "\x5f\x2a\x4d\x18", 4, FILTER_ZSTD },
		{ "\x50\x2a\x4d\x18\1\0\0\0x\x04\x22\x4d\x18", 13, FILTER_LZ4 },
		{ "\x50\x2a\x4d\x18\1\0\0\0x\x28\xb5\x2f\xfd", 13, FILTER_ZSTD },
		{ "\x5f\x2a\x4d\x18\0\0\0\0\x50\x2a\x4d\x18\1\0\0\0x\x04\x22\x4d\x18", 21,
		  FILTER_LZ4 },
		{ "\x50\x2a\x4d\x18\5\0\0\0x\x04\x22\x4d\x18", 13, FILTER_ZSTD }, /* inside of it */
		{ "\x50\x2a\x4d\x18\xff\xff\xff\xff\x04\x22\x4d\x18", 12, FILTER_ZSTD },
		{ "\x04\x22\x4d\x18", 4, FILTER_LZ4 },
		{ "\xfd"
		  "7zXZ\0",
		  6, FILTER_XZ },
		{ "BZh91AY&SY", 10, FILTER_BZIP2 },
		{ "BZh9 is a text", 14, FILTER_NONE },
		{ "LZIP\1\x0c", 6, FILTER_LZIP },
		{ "LZIPPED", 7, FILTER_NONE },
		{ "\x89LZO\0\r\n\x1a\n\x10", 10, FILTER_LZO },
		{ "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff\xff\0", 14, FILTER_LZMA },
		{ "\x5e\0\0\x50\0\xff\xff\xff\xff\xff\xff\xff\xff\0", 14, FILTER_LZMA },
		{ "\x5d\0\0\1\0\0\0\0\0\1\0\0\0\0", 14, FILTER_LZMA }, /* of 4 GiB */
		{ "\x5d\0\0\1\0\0\0\0\0\0\1\0\0\0", 14, FILTER_NONE }, /* of a TiB */
		{ "\x5d\0\0\x81\0\xff\xff\xff\xff\xff\xff\xff\xff\0", 14, FILTER_NONE },
		{ "]\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0", 14, FILTER_NONE },
		{ "\x5d\0\0\x80\0\xff\xff\xff\xff\xff\xff\xff", 12, FILTER_NONE },
		{ "", 0, FILTER_NONE },
		{ "text", 4, FILTER_NONE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(magic_get_filter(cases[i].data, cases[i].size), cases[i].expect);
}

static void make_header(char h[512], bool ustar)
{
	unsigned sum = 0;

	memset(h, 0, 512);
	strcpy(h, "name");
	if (ustar)
		memcpy(h + 257, "ustar\00000", 8);
	memset(h + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
}

static void test_formats(void **state)
{
	char h[512], zeros[512] = { 0 };

	make_header(h, true);
	assert_int_equal(magic_get_format(h, sizeof(h)), FORMAT_TAR);
	make_header(h, false); /* v7 has no magic, only the checksum */
	assert_int_equal(magic_get_format(h, sizeof(h)), FORMAT_TAR);
	assert_int_equal(magic_get_format(h, 511), FORMAT_PLAIN);
	h[0] ^= 1;
	assert_int_equal(magic_get_format(h, sizeof(h)), FORMAT_PLAIN);
	assert_int_equal(magic_get_format(zeros, sizeof(zeros)), FORMAT_PLAIN);
	assert_int_equal(magic_get_format("hsqs", 4), FORMAT_SQUASHFS);
	assert_int_equal(magic_get_format("PK\3\4", 4), FORMAT_ZIP);
	assert_int_equal(magic_get_format("PK\3", 3), FORMAT_PLAIN);
	assert_int_equal(magic_get_format("", 0), FORMAT_PLAIN);
}

static void test_members(void **state)
{
	char h[512];

	make_header(h, true);
	assert_true(magic_is_archive(h, sizeof(h), "a.tar"));
	assert_false(magic_is_archive(h, sizeof(h), "a.nemo"));
	assert_true(magic_is_archive("PK\3\4", 4, "a.ZIP"));
	assert_false(magic_is_archive("PK\3\4", 4, "a.npz"));
	assert_false(magic_is_archive("PK\3\4", 4, "a.tar"));
	assert_true(magic_is_archive("\x1f\x8b\x08\0", 4, "a.tar.gz"));
	assert_true(magic_is_archive("\x1f\x8b\x08\0", 4, "a.TGZ"));
	assert_false(magic_is_archive("\x1f\x8b\x08\0", 4, "scan.nii.gz"));
	assert_false(magic_is_archive("text", 4, "a.tar.gz"));
	assert_true(magic_is_archive("LZIP\1\x0c", 6, "a.tlz"));
	assert_false(magic_is_archive("\x89LZO\0\r\n\x1a\n\x10", 10, "a.tar.lzo"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
