#include "tests/unit/unit.h"

#include <errno.h>

#include "common/util/path.h"

static void test_normal_form(void **state)
{
	static const struct {
		const char *in, *out;
		int expect;
	} cases[] = {
		{ "/", "/", 0 },
		{ "//a///b/", "/a/b", 0 },
		{ "/a/./b/.", "/a/b", 0 },
		{ "/a/../b", "/b", 0 },
		{ "/a/b/../..", "/", 0 },
		{ "/..", NULL, -EINVAL },
		{ "/a/../../b", NULL, -EINVAL },
		{ "a/b", NULL, -EINVAL },
		{ "", NULL, -EINVAL },
		{ "/...", "/...", 0 },
		{ "/a/..b", "/a/..b", 0 },
		{ "/.a/.b", "/.a/.b", 0 },
		{ "/012345678901234567890123456789", "/012345678901234567890123456789",
		  0 }, /* just fits */
		{ "/0123456789012345678901234567890", NULL, -ENAMETOOLONG },
	};
	char buf[32];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(path_normalize(cases[i].in, buf, sizeof(buf)), cases[i].expect);
		if (cases[i].out)
			assert_string_equal(buf, cases[i].out);
	}
	assert_int_equal(path_normalize("/", buf, 2), 0);
	buf[1] = 'x';
	assert_int_equal(path_normalize("/", buf, 1), -ENAMETOOLONG);
	assert_int_equal(buf[1], 'x');
}

static void test_beneath_is_by_component(void **state)
{
	assert_true(path_is_beneath("/data", "/data"));
	assert_true(path_is_beneath("/data/x", "/data"));
	assert_false(path_is_beneath("/data2", "/data"));
	assert_false(path_is_beneath("/dat", "/data"));
	assert_true(path_is_beneath("/data", "/"));
}

static void test_rules(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool expect;
	} cases[] = {
		{ "/p/scratch/**", "/p/scratch/a/b", true },
		{ "/p/scratch/**", "/p/scratch", true },
		{ "/p/scratch/**", "/p/scratch2/a", false }, /* component boundary */
		{ "/p/scratch/*", "/p/scratch/a", true },
		{ "/p/scratch/*", "/p/scratch/a/b", false },
		{ "/p/*/data/**", "/p/proj/data/x", true },
		{ "/p/*/data/**", "/p/proj/sub/data/x", false },
		{ "/p/**/data/*", "/p/proj/sub/data/x", true },
		{ "/p/**/data/*", "/p/data/x", true },
		{ "/p/**/data/*", "/p/proj/sub/dat/x", false },
		{ "/p/x?z", "/p/xyz", true },
		{ "/p/x", "/p/x", true },
		{ "/p/x", "/p/x/y", false },
		{ "/p/*", "/p/.hidden", true },
		{ "/p/*", "/p", false },
		{ "/p/ab", "/p/xy", false },	/* no "**", though it has its length */
		{ "/p/*a", "/p/xy/za", false }, /* nor though it begins like it */
		{ "/p/**/a/b", "/p/a/x/b",
		  false },		 /* what stands behind it in one place, not in pieces */
		{ "p/x", "p/x", false }, /* absolute only */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (path_match(cases[i].pattern, cases[i].path) != cases[i].expect)
			fail_msg("%s against %s", cases[i].pattern, cases[i].path);
}

/* Longer names are none that a directory can hold; neither side is cut to fit. */
static void test_components_of_256_bytes_match_nothing(void **state)
{
	static const struct {
		char pattern, path;
		int n_pattern, n_path;
		bool expect;
	} cases[] = {
		{ 'a', 'a', 255, 255, true }, { 'a', 'a', 256, 256, false },
		{ '*', 'a', 3, 255, true },   { '*', 'a', 3, 256, false },
		{ '*', 'a', 255, 1, true },   { '*', 'a', 256, 1, false },
	};
	char pattern[300], path[300];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(pattern, 0, sizeof(pattern));
		memset(path, 0, sizeof(path));
		pattern[0] = path[0] = '/';
		memset(pattern + 1, cases[i].pattern, (size_t)cases[i].n_pattern);
		memset(path + 1, cases[i].path, (size_t)cases[i].n_path);
		assert_int_equal(path_match(pattern, path), cases[i].expect);
	}
}

static void test_small_ones(void **state)
{
	_cleanup_(freep) char *a = path_join("/b", "a"), *b = path_join("/b", "/a"),
			      *c = path_join("/", "a");

	assert_string_equal(a, "/b/a");
	assert_string_equal(b, "/a");
	assert_string_equal(c, "/a");
	assert_string_equal(path_base("/a/b"), "b");
	assert_string_equal(path_base("b"), "b");
	assert_true(path_is_pattern("/a/{1..3}"));
	assert_true(path_is_pattern("/a/x*"));
	assert_false(path_is_pattern("/a/x"));
}

/* Trying each "**" at each place took longer than anybody waits. */
static void test_the_directory_above_a_pattern(void **state)
{
	static const struct {
		const char *pattern;
		size_t n;
	} cases[] = {
		{ "/a/b/*.tar", 4 }, { "/a/b*/c", 2 }, { "/a/{b,c}/d?", 2 },
		{ "/a/b-[0-9]", 2 }, { "/*", 0 },      { "/a/b", 4 }, /* no pattern */
		{ "a*", 0 },	     { "*", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(path_get_top(cases[i].pattern), cases[i].n);
}

static void test_many_stars_and_a_long_path(void **state)
{
	char pattern[512] = "", path[4096] = "";

	for (int i = 0; i < 40; i++)
		strcat(pattern, "/**/a");
	for (int i = 0; i < 1000; i++)
		strcat(path, "/a");
	assert_true(path_match(pattern, path));
	strcat(pattern, "/b");
	assert_false(path_match(pattern, path));
	strcat(path, "/b");
	assert_true(path_match(pattern, path));
	strcat(pattern, "/**");
	assert_true(path_match(pattern, path));
}

static void test_links_that_lead_out_of_a_tree(void **state)
{
	static const struct {
		const char *dir, *link;
		bool out;
	} cases[] = {
		{ "", "a", false },
		{ "", "a/../b", false },
		{ "", "./.", false },
		{ "", "..", true },
		{ "", "a/../..", true },
		{ "", "a/../../a", true },
		{ "", "/a", true },
		{ "a/b", "/a/b", true },
		{ "a", "..", false },
		{ "a", "../..", true },
		{ "a/b", "../..", false },
		{ "a/b", "../../..", true },
		{ "a/b", "..//./../c", false },
		{ "a/b", "../../../a/b", true },
		{ "", "..a/...", false },
		{ "", "", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("%s: %s\n", cases[i].dir, cases[i].link);
		assert_int_equal(path_leads_out(cases[i].dir, cases[i].link), cases[i].out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_normal_form),
		cmocka_unit_test(test_beneath_is_by_component),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_components_of_256_bytes_match_nothing),
		cmocka_unit_test(test_many_stars_and_a_long_path),
		cmocka_unit_test(test_small_ones),
		cmocka_unit_test(test_the_directory_above_a_pattern),
		cmocka_unit_test(test_links_that_lead_out_of_a_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
