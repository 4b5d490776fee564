#include "tests/unit/unit.h"

#include <errno.h>

#include "common/dataset/member-path.h"

static void test_clean(void **state)
{
	static const struct {
		const char *in, *out;
		int expect;
	} cases[] = {
		{ "a/b", "a/b", 0 },
		{ "./a//./b/", "a/b", 0 },
		{ ".", "", 0 },
		{ "./", "", 0 },
		{ "", "", 0 },
		{ "...", "...", 0 },
		{ "..a/b..", "..a/b..", 0 },
		{ "/a", "a", 0 },
		{ "//a", "a", 0 },
		{ "/", "", 0 },
		{ "/..", NULL, -EINVAL },
		{ "..", NULL, -EINVAL },
		{ "a/..", NULL, -EINVAL },
		{ "a/../b", NULL, -EINVAL },
		{ "./../a", NULL, -EINVAL },
	};
	char buf[MEMBER_PATH_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(member_path_clean(cases[i].in, buf, NULL), cases[i].expect);
		if (cases[i].out)
			assert_string_equal(buf, cases[i].out);
	}
}

static void test_bounds(void **state)
{
	char in[3 * MEMBER_PATH_SIZE], buf[MEMBER_PATH_SIZE];

	memset(in, 'n', MEMBER_MAX_NAME);
	in[MEMBER_MAX_NAME] = '\0';
	assert_int_equal(member_path_clean(in, buf, NULL), 0);
	strcat(in, "n");
	assert_int_equal(member_path_clean(in, buf, NULL), -ENAMETOOLONG);
	in[0] = '\0';
	for (int i = 0; i < MEMBER_MAX_COMPONENTS; i++)
		strcat(in, "d/");
	assert_int_equal(member_path_clean(in, buf, NULL), 0);
	strcat(in, "d");
	assert_int_equal(member_path_clean(in, buf, NULL), -ENAMETOOLONG);
	in[0] = '\0';
	for (int i = 0; i < 100; i++)
		strcat(in, "0123456789012345678901234567890123456789012345678901234567890/");
	assert_int_equal(member_path_clean(in, buf, NULL), -ENAMETOOLONG);
}

static void test_cut(void **state)
{
	static const struct {
		const char *path, *subdir;
		uint32_t strip;
		const char *out; /* NULL: not taken */
	} cases[] = {
		{ "a/b/c", NULL, 0, "a/b/c" }, { "a/b/c", NULL, 1, "b/c" },
		{ "a/b/c", NULL, 2, "c" },     { "a/b/c", NULL, 3, NULL },
		{ "a/b/c", "a", 0, "b/c" },    { "a/b/c", "a/b", 0, "c" },
		{ "a/b/c", "a/b/", 0, "c" },   { "a/b", "a/b", 0, "" },
		{ "ab/c", "a", 0, NULL },      { "b", "a", 0, NULL },
		{ "a/b/c", "a", 1, "c" },      { "a", "a", 1, NULL },
		{ "", NULL, 0, "" },
	};
	char buf[MEMBER_PATH_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		strcpy(buf, cases[i].path);
		assert_int_equal(member_path_cut(buf, cases[i].subdir, cases[i].strip),
				 cases[i].out != NULL);
		if (cases[i].out)
			assert_string_equal(buf, cases[i].out);
	}
}

static void test_suffix(void **state)
{
	static const char *const cases[][2] = {
		{ "a/n01.tar", "a/n01" },     { "n01.tar.gz", "n01" },	{ "N01.TGZ", "N01" },
		{ "x.tar/y", "x.tar/y" },     { ".tar", ".tar" },	{ "a.b.tar.zst", "a.b" },
		{ "plain.txt", "plain.txt" }, { "d/..tar", "d/..tar" }, { "...zip", "...zip" },
		{ "....tar.gz", "..." },      { "..a.tar", "..a" },
	};
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		strcpy(buf, cases[i][0]);
		member_path_cut_suffix(buf);
		assert_string_equal(buf, cases[i][1]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clean),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_suffix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
