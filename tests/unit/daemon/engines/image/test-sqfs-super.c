#include "tests/unit/unit.h"

#include <errno.h>

#include "daemon/engines/image/sqfs-super.h"

enum { FILE_SIZE = 100000 };

static void put(uint8_t *p, size_t size, uint64_t v)
{
	for (size_t i = 0; i < size; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* A superblock without fault. */
static void make(uint8_t p[static SQFS_SUPER_SIZE])
{
	memset(p, 0, SQFS_SUPER_SIZE);
	put(p, 4, 0x73717368);
	put(p + 4, 4, 10);	/* inodes */
	put(p + 12, 4, 131072); /* block size */
	put(p + 16, 4, 3);	/* fragments */
	put(p + 20, 2, 1);	/* gzip */
	put(p + 22, 2, 17);	/* log */
	put(p + 26, 2, 1);	/* ids */
	put(p + 28, 2, 4);
	put(p + 32, 8, 100);   /* root */
	put(p + 40, 8, 90000); /* bytes used */
	put(p + 48, 8, 89000); /* id table */
	put(p + 56, 8, UINT64_MAX);
	put(p + 64, 8, 80000); /* inodes */
	put(p + 72, 8, 85000); /* directories */
	put(p + 80, 8, 88000); /* fragments */
	put(p + 88, 8, UINT64_MAX);
}

/* clang-format off */
static const struct {
	size_t at, size;
	uint64_t value;
	int expect;
	const char *words; /* of the message */
} cases[] = {
	{  0, 4, 0,              -EINVAL,     "not a squashfs image" },
	{  0, 4, 0x68737173,     -EOPNOTSUPP, "big-endian" },
	{ 28, 2, 3,              -EOPNOTSUPP, "version 3.0" },
	{ 30, 2, 1,              -EOPNOTSUPP, "version 4.1" },
	{ 20, 2, 0,              -EOPNOTSUPP, "unknown method (0)" },
	{ 20, 2, 7,              -EOPNOTSUPP, "unknown method (7)" },
	{ 12, 4, 0,              -EIO,        "block size 0" },
	{ 12, 4, 3000,           -EIO,        "block size 3000" },
	{ 12, 4, 2 << 20,        -EIO,        "block size" },
	{ 12, 4, 0xfffff000,     -EIO,        "block size" },
	{ 12, 4, 2048,           -EIO,        "block size" },
	{ 22, 2, 16,             -EIO,        "logarithm 16" },
	{ 22, 2, 0xffff,         -EIO,        "logarithm" },
	{ 22, 2, 49,             -EIO,        "logarithm" }, /* shifted by 49 - 32 it would fit */
	{ 40, 8, 100001,         -EIO,        "truncated: has 100000 of 100001 bytes" },
	{ 40, 8, UINT64_MAX,     -EIO,        "truncated" },
	{ 40, 8, 0,              -EIO,        "tables" },
	{  4, 4, 0,              -EIO,        "0 inodes" },
	{  4, 4, UINT32_MAX,     -EIO,        "inodes" },
	{ 16, 4, UINT32_MAX,     -EIO,        "fragments" },
	{ 64, 8, 0,              -EIO,        "tables" },
	{ 64, 8, 85000,          -EIO,        "tables" },
	{ 64, 8, UINT64_MAX,     -EIO,        "tables" },
	{ 72, 8, 79999,          -EIO,        "tables" },
	{ 72, 8, 90000,          -EIO,        "tables" },
	{ 72, 8, UINT64_MAX,     -EIO,        "tables" },
	{ 48, 8, 90000,          -EIO,        "id table" },
	{ 48, 8, UINT64_MAX,     -EIO,        "id table" },
	{ 80, 8, UINT64_MAX,     -EIO,        "fragments" },
	{ 80, 8, 96,             -EIO,        "fragments" },
	{ 32, 8, 5000 << 16,     -EIO,        "root" },
	{ 32, 8, 0xfff0,         -EIO,        "root" },
	{ 32, 8, UINT64_MAX,     -EIO,        "root" },
	{ 16, 4, 0,              0,           NULL },
	{ 12, 4, 131072,         0,           NULL },
};
/* clang-format on */

static void test_what_can_not_be_is_refused_with_its_reason(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t p[SQFS_SUPER_SIZE];
		struct error err = ERROR_INIT;
		struct sqfs_super s;
		int r;

		make(p);
		put(p + cases[i].at, cases[i].size, cases[i].value);
		r = sqfs_super_from_data(&s, p, sizeof(p), FILE_SIZE, &err);
		if (r != cases[i].expect || (cases[i].words && !strstr(err.text, cases[i].words)))
			fail_msg("case %zu: %d '%s'", i, r, err.text);
	}
}

static void test_short_files_are_refused(void **state)
{
	uint8_t p[SQFS_SUPER_SIZE];
	struct sqfs_super s;
	struct error err = ERROR_INIT;

	make(p);
	for (size_t n = 1; n < SQFS_SUPER_SIZE; n++)
		assert_int_equal(sqfs_super_from_data(&s, p, n, n, NULL), -EINVAL);
	assert_int_equal(sqfs_super_from_data(&s, p, 0, 0, &err), -EINVAL);
	assert_string_equal(err.text, "the image is empty");
	assert_int_equal(sqfs_super_from_data(&s, p, SQFS_SUPER_SIZE, 89999, NULL), -EIO);
	assert_int_equal(sqfs_super_from_data(&s, p, SQFS_SUPER_SIZE, 90000, NULL), 0);
	assert_int_equal(s.block_size, 131072);
	assert_int_equal(s.n_fragments, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_can_not_be_is_refused_with_its_reason),
		cmocka_unit_test(test_short_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
