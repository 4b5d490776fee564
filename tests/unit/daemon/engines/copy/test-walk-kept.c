#include "tests/unit/unit.h"

#include "daemon/engines/copy/walk-kept.h"
#include "daemon/engines/copy/walk.h"

static struct stat file(off_t size, unsigned links, bool sparse)
{
	return (struct stat){ .st_mode = S_IFREG | 0640,
			      .st_size = size,
			      .st_nlink = links,
			      .st_blocks = sparse ? 0 : (size + 511) / 512,
			      .st_mtim = { 1234567890, 987654321 } };
}

static const struct stat dir_st = { .st_ino = 7, .st_mtim = { 11, 12 } };

static void test_what_is_put_in_comes_out(void **state)
{
	static const struct {
		const char *name;
		off_t size;
		unsigned links;
		bool sparse;
		const char *data;
	} files[] = {
		{ "a", 0, 1, false, NULL },
		{ "with data", 5, 1, false, "12345" },
		{ "linked", 1LL << 40, 3, false, NULL },
		{ "sparse", 1 << 20, 1, true, NULL },
		{ "b", 1, 1, false, "1" },
	};
	_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
	struct walk_kept_dir *root, *child, *got;
	struct walk_entry e;
	size_t pos = 0;

	assert_int_equal(walk_kept_new(&k, 1 << 20), 0);
	root = walk_kept_get_root(k);
	walk_kept_begin(root, &dir_st);
	child = walk_kept_add_dir(root, "sub");
	assert_non_null(child);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct stat st = file(files[i].size, files[i].links, files[i].sparse);

		walk_kept_add_entry(root, files[i].name, &st,
				    files[i].data ? strdup(files[i].data) : NULL);
	}
	assert_false(walk_kept_is_good(root, &dir_st));
	walk_kept_complete(root);
	assert_true(walk_kept_is_good(root, &dir_st));
	assert_int_equal(walk_kept_get_unread(k), 3);

	assert_true(walk_kept_next(root, &pos, &e, &got));
	assert_string_equal(e.name, "sub");
	assert_true(S_ISDIR(e.st.st_mode) && got == child);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct stat st = file(files[i].size, files[i].links, files[i].sparse);

		assert_true(walk_kept_next(root, &pos, &e, &got));
		assert_string_equal(e.name, files[i].name);
		assert_int_equal(e.st.st_mode, st.st_mode);
		assert_int_equal(e.st.st_size, st.st_size);
		assert_memory_equal(&e.st.st_mtim, &st.st_mtim, sizeof(st.st_mtim));
		assert_int_equal(e.st.st_nlink > 1, files[i].links > 1);
		assert_int_equal(e.st.st_blocks * 512 + 4096 < e.st.st_size, files[i].sparse);
		if (files[i].data)
			assert_memory_equal(e.data, files[i].data, (size_t)files[i].size);
		else
			assert_null(e.data);
	}
	assert_false(walk_kept_next(root, &pos, &e, &got));
}

static void test_a_directory_that_changed_is_not_good(void **state)
{
	_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
	struct stat other = dir_st;
	struct walk_kept_dir *root;

	assert_int_equal(walk_kept_new(&k, 1 << 20), 0);
	root = walk_kept_get_root(k);
	walk_kept_begin(root, &dir_st);
	walk_kept_complete(root);
	other.st_mtim.tv_nsec++;
	assert_false(walk_kept_is_good(root, &other));
	other = dir_st;
	other.st_ino++;
	assert_false(walk_kept_is_good(root, &other));
	assert_true(walk_kept_is_good(root, &dir_st));
	walk_kept_give_up(root);
	walk_kept_complete(root);
	assert_false(walk_kept_is_good(NULL, &dir_st));
}

/* What does not fit is given up whole, and makes room for what is small. */
static void test_memory_is_bounded(void **state)
{
	_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
	struct walk_kept_dir *root, *small, *huge;
	const struct stat st = file(10, 1, false);
	char name[300];

	assert_int_equal(walk_kept_new(&k, 1 << 20), 0);
	root = walk_kept_get_root(k);
	small = walk_kept_add_dir(root, "small");
	huge = walk_kept_add_dir(root, "huge");
	walk_kept_begin(huge, &dir_st);
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "file %d", i);
		walk_kept_add_entry(huge, name, &st, strdup("0123456789"));
	}
	walk_kept_complete(huge);
	assert_int_equal(walk_kept_get_unread(k), UINT64_MAX);
	assert_false(walk_kept_is_good(huge, &dir_st));
	walk_kept_begin(small, &dir_st);
	walk_kept_add_entry(small, "f", &st, NULL);
	walk_kept_complete(small);
	assert_true(walk_kept_is_good(small, &dir_st));
	/* a name that the length has no room for */
	memset(name, 'x', 256);
	name[256] = '\0';
	walk_kept_add_entry(small, name, &st, NULL);
	walk_kept_complete(small);
	assert_false(walk_kept_is_good(small, &dir_st));
	/* nothing is kept of what has no place */
	assert_null(walk_kept_add_dir(NULL, "x"));
	walk_kept_add_entry(NULL, "x", &st, strdup("data"));
}

static void test_data_is_wanted_of_small_files_within_bounds(void **state)
{
	_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
	const struct stat big = file(1 << 20, 1, false), small = file(30000, 1, false);
	struct walk_kept_dir *root;
	size_t n = 0;

	assert_int_equal(walk_kept_new(&k, 16 << 20), 0);
	root = walk_kept_get_root(k);
	assert_false(walk_kept_wants_data(root)); /* nothing is known */
	for (int i = 0; i < 40; i++)
		walk_kept_add_entry(root, "f", &big, NULL);
	assert_false(walk_kept_wants_data(root));
	for (int i = 0; i < 1000; i++)
		walk_kept_add_entry(root, "f", &small, NULL);
	assert_true(walk_kept_wants_data(root));
	while (walk_kept_wants_data(root) && n < 10000) {
		walk_kept_add_entry(root, "f", &small, calloc(1, 30000));
		n++;
	}
	assert_in_range(n * 30000, 8 << 20, WALK_KEPT_MAX_DATA);
	assert_false(walk_kept_wants_data(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_put_in_comes_out),
		cmocka_unit_test(test_a_directory_that_changed_is_not_good),
		cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_data_is_wanted_of_small_files_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
