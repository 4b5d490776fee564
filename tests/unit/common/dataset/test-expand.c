#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "common/dataset/expand.h"

static void join(const struct names *n, char *buf, size_t size)
{
	buf[0] = '\0';
	for (size_t i = 0; i < n->n; i++)
		snprintf(buf + strlen(buf), size - strlen(buf), "%s%s", i ? " " : "", n->v[i]);
}

static void test_braces(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "/a/b", "/a/b" },
		{ "/a/{b,c}", "/a/b /a/c" },
		{ "{a,b}{1,2}", "a1 a2 b1 b2" },
		{ "{a,b{1,2}}c", "ac b1c b2c" },
		{ "x{,.gz}", "x x.gz" },
		{ "s-{8..11}", "s-8 s-9 s-10 s-11" },
		{ "s-{08..11}", "s-08 s-09 s-10 s-11" },
		{ "s-{008..9}", "s-008 s-009" },
		{ "s-{3..1}", "s-3 s-2 s-1" },
		{ "{}", "{}" },
		{ "{a}", "{a}" },
		{ "a{b", "a{b" },
		{ "a}b", "a}b" },
		{ "{a..b}", "{a..b}" },
		{ "{1..}", "{1..}" },
		{ "{-1..2}", "{-1..2}" },
		{ "{{a,b},{c,d}}", "a b c d" },
		{ "{a}{b,c}", "{a}b {a}c" },
	};
	char buf[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(names_deinit) struct names names = { 0 };

		assert_int_equal(expand_braces(cases[i].in, &names, NULL), 0);
		join(&names, buf, sizeof(buf));
		assert_string_equal(buf, cases[i].out);
	}
}

static void test_bounds(void **state)
{
	static const char *const cases[] = {
		"{0..99999999}",
		"{0..9999}{0..9999}",
		"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{"
		"a,b}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(names_deinit) struct names names = { 0 };
		struct error err = ERROR_INIT;

		assert_true(expand_braces(cases[i], &names, &err) < 0);
		assert_true(err.text[0]);
	}
}

static void make(const char *dir, const char *name)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

/* Where the pattern is too large to be looked for, nobody is told that other files fit. */
static void test_a_file_that_is_named_like_a_pattern(void **state)
{
	static const struct {
		const char *pattern;
		int expect;
	} cases[] = {
		{ "a{1,2}", 2 },	 { "b{1,2}", 1 },   { "c[1]", 2 }, { "d[1]", 1 },
		{ "e{0..99999999}", 1 }, { "missing*", 0 }, { "a1", 0 },
	};
	static const char *const files[] = { "a{1,2}", "a1",   "b{1,2}",	"c[1]",
					     "c1",     "d[1]", "e{0..99999999}" };
	char path[4096];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		make(*state, files[i]);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(path, sizeof(path), "%s/%s", (char *)*state, cases[i].pattern);
		assert_int_equal(expand_find_name(path), cases[i].expect);
	}
}

static const char *broken; /* this name can't be read, nor the rest of its directory */

struct dirent *__real_readdir64(DIR *dir);
struct dirent *__wrap_readdir64(DIR *dir);

struct dirent *__wrap_readdir64(DIR *dir)
{
	struct dirent *e = __real_readdir64(dir);

	if (!e || !broken || strcmp(e->d_name, broken))
		return e;
	errno = EIO;
	return NULL;
}

static int expand_in(const char *dir, const char *pattern, struct names *names, struct error *err)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, pattern);
	return expand_pattern(path, names, err);
}

/* The set was smaller without a word, and with shard=node the nodes had numbered it differently. */
static void test_a_directory_that_can_not_be_read_is_an_error(void **state)
{
	static const struct {
		const char *pattern, *broken;
		bool is_shut;
		int expect;
	} cases[] = {
		{ "*/x*", NULL, false, 0 },	 { "*/x*", NULL, true, -EACCES },
		{ "*/x1", NULL, true, -EACCES }, { "{a,b}/x*", NULL, true, -EACCES },
		{ "a/x*", NULL, true, 0 },	 { "a/x*", "x1", false, -EIO },
		{ "*/x*", "b", false, -EIO },	 { "none/x*", NULL, true, 0 },
		{ "*/none*", NULL, false, 0 },	 { "a/x1/*", NULL, false, 0 },
	};
	const bool root = geteuid() == 0;
	char path[4096];

	assert_int_equal(chmod(*state, 0755), 0);
	for (const char *const *d = (const char *const[]){ "a", "b", NULL }; *d; d++) {
		snprintf(path, sizeof(path), "%s/%s", (char *)*state, *d);
		assert_int_equal(mkdir(path, 0755), 0);
		snprintf(path, sizeof(path), "%s/x1", *d);
		make(*state, path);
	}
	snprintf(path, sizeof(path), "%s/b", (char *)*state);
	assert_int_equal(root ? seteuid(65534) : 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(names_deinit) struct names names = { 0 };
		struct error err = ERROR_INIT;
		int r;

		assert_int_equal(root ? seteuid(0) : 0, 0);
		assert_int_equal(chmod(path, cases[i].is_shut ? 0 : 0755), 0);
		assert_int_equal(root ? seteuid(65534) : 0, 0);
		broken = cases[i].broken;
		r = expand_in(*state, cases[i].pattern, &names, &err);
		broken = NULL;
		assert_int_equal(r, cases[i].expect);
		if (r < 0)
			assert_non_null(strstr(err.text, *state));
	}
	assert_int_equal(root ? seteuid(0) : 0, 0);
}

static void test_lists(void **state)
{
	static const struct {
		const char *in, *out;
		int expect;
	} cases[] = {
		{ "a\nb\n", "/d/a /d/b", 0 },
		{ "a\r\n\r\n\n/abs/b", "/d/a /abs/b", 0 },
		{ "\xef\xbb\xbf/abs/a\nb\n", "/abs/a /d/b", 0 },
		{ "\xef\xbb\xbf", "", 0 },
		{ "", "", 0 },
		{ "has blank \n#no comment\n", "/d/has blank  /d/#no comment", 0 },
		{ "https://h/x\n", "", -EINVAL },
	};
	char buf[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(names_deinit) struct names names = { 0 };

		assert_int_equal(expand_list(cases[i].in, strlen(cases[i].in), "/d", &names, NULL),
				 cases[i].expect);
		join(&names, buf, sizeof(buf));
		if (cases[i].expect == 0)
			assert_string_equal(buf, cases[i].out);
	}
	{
		_cleanup_(names_deinit) struct names names = { 0 };

		assert_int_equal(expand_list("a\0b", 3, "/d", &names, NULL), -EINVAL);
	}
}

static void test_sorted_by_bytes(void **state)
{
	static const char *const in[] = { "b", "B", "\xc3\xa9", "a", "a-", "a.b", "a0" };
	_cleanup_(names_deinit) struct names names = { 0 };
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		assert_int_equal(names_add(&names, in[i], strlen(in[i])), 0);
	names_sort(&names);
	join(&names, buf, sizeof(buf));
	assert_string_equal(buf, "B a a- a.b a0 b \xc3\xa9");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_braces),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test_setup_teardown(test_a_file_that_is_named_like_a_pattern,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_directory_that_can_not_be_read_is_an_error,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_sorted_by_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
