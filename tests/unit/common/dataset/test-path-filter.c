#include "tests/unit/unit.h"

#include "common/dataset/dataset.h"
#include "common/dataset/path-filter.h"

static void test_cases(void **state)
{
	static const struct {
		const char *include, *exclude, *path;
		bool taken;
	} cases[] = {
		{ NULL, NULL, "a/b", true },
		{ "*.jpg", NULL, "a.jpg", true },
		{ "*.jpg", NULL, "d/a.jpg", true },
		{ "*.jpg", NULL, "d/a.png", false },
		{ "*.jpg", NULL, "d.jpg/a.png", true }, /* what fits a directory holds below it */
		{ "train", NULL, "train/a", true },
		{ "train", NULL, "x/train/a", true },
		{ "train", NULL, "trained/a", false },
		{ "./train/", NULL, "train/a", true },
		{ "train/*", NULL, "train/d/a", true },
		{ "train/*", NULL, "x/train/a", false }, /* from the top */
		{ "/train", NULL, "train/a", true },
		{ "/train", NULL, "x/train/a", false },
		{ "**/n01*", NULL, "a/b/n012/x", true },
		{ "a/**/z", NULL, "a/b/c/z", true },
		{ "*.{jpg,png}", NULL, "a.png", true },
		{ "*.{jpg,png}", NULL, "a.gif", false },
		{ NULL, "*.txt", "a/b.txt", false },
		{ NULL, "*.txt", "a/b.jpg", true },
		{ NULL, "val", "val/x/y", false },
		{ "*.jpg", "val", "val/a.jpg", false },
		{ "*.jpg", "val", "train/a.jpg", true },
		{ "[ab].x", NULL, "a.x", true },
		{ "[ab].x", NULL, "c.x", false },
		{ "*", NULL, ".hidden", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(path_filter_freep) struct path_filter *f = NULL;
		struct dataset ds = { .n_include = cases[i].include != NULL,
				      .n_exclude = cases[i].exclude != NULL };

		ds.include[0] = (char *)cases[i].include;
		ds.exclude[0] = (char *)cases[i].exclude;
		assert_int_equal(path_filter_new(&f, &ds, NULL), 0);
		if (path_filter_takes(f, cases[i].path) != cases[i].taken)
			fail_msg("include %s exclude %s: %s", cases[i].include, cases[i].exclude,
				 cases[i].path);
	}
}

/* A directory that is left out has nothing below it that is taken. */
static void test_what_is_pruned_is_not_taken(void **state)
{
	static const char *const excludes[] = { "a", "a/b", "*", "**/c", "b*", "{a,c}" };
	static const char *const dirs[] = { "a", "a/b", "b", "c", "x/c", "bb", "x" };

	for (size_t i = 0; i < ARRAY_SIZE(excludes); i++) {
		_cleanup_(path_filter_freep) struct path_filter *f = NULL;
		struct dataset ds = { .n_exclude = 1, .exclude = { (char *)excludes[i] } };
		char below[64];

		assert_int_equal(path_filter_new(&f, &ds, NULL), 0);
		for (size_t k = 0; k < ARRAY_SIZE(dirs); k++) {
			snprintf(below, sizeof(below), "%s/zz/zz", dirs[k]);
			if (path_filter_prunes(f, dirs[k]))
				assert_false(path_filter_takes(f, below));
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_what_is_pruned_is_not_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
