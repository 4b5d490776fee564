#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>

#include "common/dataset/dataset.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "spank/source-check.h"

/* The program is linked with --wrap=access: a path that ends in "hang" never answers. */
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
	size_t n = strlen(path);

	if (n > 4 && !strcmp(path + n - 4, "hang"))
		for (;;)
			pause();
	return __real_access(path, mode);
}

static void test_what_is_looked_at(void **state)
{
	static const struct {
		enum dataset_scheme scheme;
		const char *source, *expect;
	} cases[] = {
		{ DATASET_SCHEME_FILE, "/p/a.tar", "/p/a.tar" },
		{ DATASET_SCHEME_FILE, "/p/s-{000..146}.tar", "/p" },
		{ DATASET_SCHEME_FILE, "/p/run-*/x/y.tar", "/p" },
		{ DATASET_SCHEME_FILE, "/p/q/[ab]", "/p/q" },
		{ DATASET_SCHEME_FILE, "/*", "/" },
		{ DATASET_SCHEME_LIST, "/p/list[1].txt", "/p/list[1].txt" },
		{ DATASET_SCHEME_HTTP, "https://h/x", "" },
		{ DATASET_SCHEME_S3, "s3://b/k", "" },
		{ DATASET_SCHEME_CATALOG, "imagenet", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dataset d = { .scheme = cases[i].scheme,
				     .source = (char *)cases[i].source,
				     .is_set = path_is_pattern(cases[i].source) };
		char buf[4096];

		source_check_path(&d, buf, sizeof(buf));
		assert_string_equal(buf, cases[i].expect);
	}
}

struct seen {
	size_t n;
	size_t index[8];
	size_t n_fault[8]; /* behind the scratch directory and its slash */
	int errnum[8];
	size_t n_base;
	uint64_t bytes; /* of the last one that is there */
};

static void report(void *arg, const struct source_check_result *result)
{
	struct seen *s = arg;

	if (result->errnum == 0) {
		s->bytes = result->bytes;
		return;
	}
	assert_true(s->n < 8);
	s->index[s->n] = result->index;
	s->n_fault[s->n] = result->n_fault - s->n_base;
	s->errnum[s->n++] = result->errnum;
}

/* One list of files below the scratch directory. */
static int check(void **state, const char *const *names, size_t n, unsigned limit_ms,
		 struct seen *seen, size_t *indexp)
{
	struct dataset items[8] = { 0 };
	struct dataset_list list = { items, n };
	int r;

	for (size_t i = 0; i < n; i++) {
		items[i].scheme = DATASET_SCHEME_FILE;
		items[i].is_set = path_is_pattern(names[i]);
		assert_true(asprintf(&items[i].source, "%s/%s", (char *)*state, names[i]) > 0);
	}
	*seen = (struct seen){ .n_base = strlen(*state) + 1 };
	r = source_check(&list, limit_ms, indexp, report, seen);
	for (size_t i = 0; i < n; i++)
		free(items[i].source);
	return r;
}

static void make(void **state, const char *name, mode_t mode)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", (char *)*state, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_each_missing_source_is_reported(void **state)
{
	static const char *const names[] = { "there", "missing", "there/x", "also-missing/x/y" };
	struct seen seen;
	size_t index;

	make(state, "there", 0644);
	assert_int_equal(check(state, names, 4, 3000, &seen, &index), SOURCE_CHECK_OK);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.index[0], 1);
	assert_int_equal(seen.errnum[0], ENOENT);
	assert_int_equal(seen.errnum[1], ENOTDIR);
	assert_int_equal(seen.index[2], 3);
	/* seen failing with a find_fault() that gives the whole length */
	assert_int_equal(seen.n_fault[0], strlen("missing"));
	assert_int_equal(seen.n_fault[1], strlen("there"));
	assert_int_equal(seen.n_fault[2], strlen("also-missing"));
}

static void test_unreadable_and_odd_sources_are_reported(void **state)
{
	static const char *const names[] = { "fifo", "link", "closed" };
	struct seen seen;
	char path[4096];
	size_t index;

	make(state, "closed", 0000);
	snprintf(path, sizeof(path), "%s/fifo", (char *)*state);
	assert_int_equal(mkfifo(path, 0600), 0);
	snprintf(path, sizeof(path), "%s/link", (char *)*state);
	assert_int_equal(symlink("nothing", path), 0);
	assert_int_equal(check(state, names, 3, 3000, &seen, &index), SOURCE_CHECK_OK);
	assert_int_equal(seen.errnum[0], EMEDIUMTYPE);
	assert_int_equal(seen.errnum[1], ENOLINK);	  /* was said to be no file */
	assert_int_equal(seen.n, geteuid() == 0 ? 2 : 3); /* root may read everything */
}

static void test_a_pattern_that_nothing_fits_is_reported(void **state)
{
	static const char *const names[] = { "s-*.tar", "s-{0..2}.tar", "s-{0..3}.tar",
					     "t-*",	"{s,t}-*.tar",	"{u,t}-*" };
	struct seen seen;
	size_t index;

	make(state, "s-0.tar", 0644);
	make(state, "s-2.tar", 0644); /* that the middle is missing is told on the node */
	assert_int_equal(check(state, names, 6, 3000, &seen, &index), SOURCE_CHECK_OK);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.index[0], 2);
	assert_int_equal(seen.errnum[0], SOURCE_CHECK_END_MISSING);
	assert_int_equal(seen.index[1], 3);
	assert_int_equal(seen.errnum[1], SOURCE_CHECK_FITS_NONE);
	assert_int_equal(seen.index[2], 5);
}

static void test_a_file_that_is_named_like_a_pattern_comes_first(void **state)
{
	static const char *const names[] = { "n[1]", "m[1]", "o-{a,b}", "*", "u[1]" };
	struct seen seen;
	size_t index;

	make(state, "n[1]", 0644);
	make(state, "m[1]", 0644);
	make(state, "m1", 0644);
	make(state, "o-{a,b}", 0644); /* its braces make names that are not there */
	make(state, "*", 0644);
	assert_int_equal(check(state, names, 5, 3000, &seen, &index), SOURCE_CHECK_OK);
	assert_int_equal(seen.n, 5);
	assert_int_equal(seen.errnum[0], SOURCE_CHECK_IS_NAME);
	assert_int_equal(seen.errnum[1], SOURCE_CHECK_IS_NAME_OF_MANY);
	assert_int_equal(seen.errnum[2], SOURCE_CHECK_IS_NAME);
	assert_int_equal(seen.errnum[3], SOURCE_CHECK_IS_NAME_OF_MANY);
	assert_int_equal(seen.errnum[4], SOURCE_CHECK_FITS_NONE);
}

static void test_the_size_of_a_file_is_told_without_holes(void **state)
{
	static const char *const names[] = { "sized" };
	struct seen seen;
	char path[4096];
	size_t index;

	make(state, "sized", 0644);
	snprintf(path, sizeof(path), "%s/sized", (char *)*state);
	assert_int_equal(truncate(path, 1 << 30), 0);
	assert_int_equal(check(state, names, 1, 3000, &seen, &index), SOURCE_CHECK_OK);
	assert_true(seen.bytes < 1 << 20);
}

static void test_a_source_that_hangs_is_named_in_time(void **state)
{
	static const char *const names[] = { "there", "hang", "there" };
	uint64_t start = clock_ms();
	struct seen seen;
	size_t index;

	make(state, "hang", 0644);
	assert_int_equal(check(state, names, 3, 200, &seen, &index), SOURCE_CHECK_HANGS);
	assert_int_equal(index, 1);
	assert_int_equal(seen.n, 0);
	assert_in_range(clock_ms() - start, 200, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_looked_at),
		cmocka_unit_test(test_each_missing_source_is_reported),
		cmocka_unit_test(test_unreadable_and_odd_sources_are_reported),
		cmocka_unit_test(test_a_pattern_that_nothing_fits_is_reported),
		cmocka_unit_test(test_a_file_that_is_named_like_a_pattern_comes_first),
		cmocka_unit_test(test_the_size_of_a_file_is_told_without_holes),
		cmocka_unit_test(test_a_source_that_hangs_is_named_in_time),
	};

	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
