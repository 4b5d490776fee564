#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/engines/copy/tree.h"

/* Calls of strncmp(), one for each directory that a path is compared with. */
static uint64_t n_compared;

int __real_strncmp(const char *a, const char *b, size_t n);
int __wrap_strncmp(const char *a, const char *b, size_t n);

int __wrap_strncmp(const char *a, const char *b, size_t n)
{
	n_compared++;
	return __real_strncmp(a, b, n);
}

static const struct tree_meta dir_meta = { .mode = 0750, .mtime = { 1000, 0 } };
static const struct tree_meta file_meta = { .mode = 06751, .mtime = { 2000, 5 } };

static int open_root(void **state)
{
	int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static int add_file(struct tree *t, const char *path, const char *data)
{
	struct tree_place place;
	int fd, r;

	r = tree_get_file_place(t, path, strlen(data), false, &place, NULL);
	if (r < 0)
		return r;
	r = tree_make_file(t, &place, path, &file_meta, strlen(data), false, &fd, NULL);
	tree_put_place(&place);
	if (r < 0)
		return r;
	assert_int_equal(write(fd, data, strlen(data)), (ssize_t)strlen(data));
	return tree_end_file(t, &fd, path, &file_meta, NULL);
}

/* Far more directories than may stay open, in an order that goes back and forth. */
static void test_many_directories(void **state)
{
	_cleanup_(fd_closep) int root = open_root(state);
	_cleanup_(tree_freep) struct tree *t = NULL;
	char path[64];
	struct stat st;
	mode_t mode;

	assert_int_equal(tree_new(&t, root, NULL, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), "d%d/sub", i % 1000);
		assert_int_equal(tree_add_dir(t, path, &dir_meta, NULL), 0);
		snprintf(path, sizeof(path), "d%d/sub/f%d", i * 7 % 1000, i);
		assert_int_equal(add_file(t, path, "x"), 0);
	}
	assert_int_equal(tree_finish(t, &mode, NULL), 0);
	assert_int_equal(mode, 0);
	assert_int_equal(fstatat(root, "d5/sub", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(st.st_mtim.tv_sec, 1000);
	assert_int_equal(fstatat(root, "d5", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755); /* nobody said anything about it */
	assert_int_equal(fstatat(root, "d7/sub/f1", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0751); /* without setuid */
	assert_int_equal(st.st_mtim.tv_sec, 2000);
}

static uint32_t add_fnv(uint32_t h, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)text[i]) * 16777619u;
	return h;
}

static void put_number(char to[static 6], uint32_t n)
{
	for (unsigned k = 0; k < 6; k++)
		to[k] = "0123456789abcdef"[n >> 4 * k & 15];
}

/* Two texts of six bytes after which FNV-1a of 32 bits is the same, if it was h before. */
static uint32_t find_pair(uint32_t h, char pair[static 2][6])
{
	enum { N = 1 << 20 };
	uint32_t *seen = calloc(N, sizeof(*seen)), got;

	assert_non_null(seen);
	for (uint32_t i = 1;; i++) {
		assert_true(i < 1 << 24);
		put_number(pair[0], i);
		got = add_fnv(h, pair[0], 6);
		put_number(pair[1], seen[got % N]);
		if (seen[got % N] && add_fnv(h, pair[1], 6) == got)
			break;
		seen[got % N] = i;
	}
	free(seen);
	return got;
}

/* Each pair doubles the names of one FNV-1a. A table by that hash has them in one bucket. */
static void test_names_of_one_hash_are_not_compared_with_each_other(void **state)
{
	enum { PAIRS = 10, N = 1 << PAIRS };
	_cleanup_(fd_closep) int root = open_root(state);
	_cleanup_(tree_freep) struct tree *t = NULL;
	char pairs[PAIRS][2][6], path[6 * PAIRS + 1] = "";
	uint32_t h = 2166136261u;

	for (unsigned i = 0; i < PAIRS; i++)
		h = find_pair(h, pairs[i]);
	assert_int_equal(tree_new(&t, root, NULL, NULL), 0);
	n_compared = 0;
	for (unsigned i = 0; i < N; i++) {
		for (unsigned k = 0; k < PAIRS; k++)
			memcpy(path + 6 * k, pairs[k][i >> k & 1], 6);
		assert_true(add_fnv(2166136261u, path, 6 * PAIRS) == h);
		assert_int_equal(tree_add_dir(t, path, &dir_meta, NULL), 0);
	}
	assert_in_range(n_compared, 0, 10 * N);
}

static void test_what_is_refused(void **state)
{
	_cleanup_(fd_closep) int root = open_root(state);
	_cleanup_(tree_freep) struct tree *t = NULL;

	assert_int_equal(tree_new(&t, root, NULL, NULL), 0);
	assert_int_equal(tree_add_symlink(t, "out", "/tmp", &file_meta, NULL), 0);
	assert_int_equal(tree_add_dir(t, "dir", &dir_meta, NULL), 0);
	assert_int_equal(add_file(t, "file", "1"), 0);

	assert_int_equal(add_file(t, "out/evil", "x"), -EEXIST);
	assert_int_equal(tree_add_dir(t, "out", &dir_meta, NULL), -EEXIST);
	assert_int_equal(tree_add_dir(t, "out/sub", &dir_meta, NULL), -EEXIST);
	assert_int_equal(add_file(t, "file/below", "x"), -EEXIST);
	assert_int_equal(add_file(t, "dir", "x"), -EISDIR);
	assert_int_equal(add_file(t, "", "x"), -EINVAL);
	assert_int_equal(tree_add_symlink(t, "dir", "x", &file_meta, NULL), -EISDIR);
	assert_int_equal(tree_add_hardlink(t, "h", "missing", NULL), -ENOENT);
	assert_int_equal(tree_add_hardlink(t, "h", "out/passwd", NULL), -ENOENT);
	assert_int_equal(tree_add_hardlink(t, "h", "no/such", NULL), -ENOENT);
	assert_true(tree_add_hardlink(t, "h", "dir", NULL) < 0);
	assert_true(faccessat(root, "h", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
}

static void test_the_last_one_wins(void **state)
{
	_cleanup_(fd_closep) int root = open_root(state);
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct tree_counts counts;
	struct stat a, b;

	assert_int_equal(tree_new(&t, root, NULL, NULL), 0);
	assert_int_equal(add_file(t, "a", "first"), 0);
	assert_int_equal(tree_add_hardlink(t, "b", "a", NULL), 0);
	assert_int_equal(tree_add_symlink(t, "l", "/etc/passwd", &file_meta, NULL), 0);
	assert_int_equal(add_file(t, "l", "no link any more"), 0);
	assert_int_equal(add_file(t, "a", "second"), 0);
	assert_int_equal(fstatat(root, "a", &a, 0), 0);
	assert_int_equal(fstatat(root, "b", &b, 0), 0);
	assert_int_equal(a.st_size, 6);
	assert_int_equal(b.st_size, 5); /* replaced, not written through */
	assert_int_equal(tree_add_hardlink(t, "b", "a", NULL), 0);
	assert_int_equal(tree_add_hardlink(t, "a", "a", NULL), 0);
	assert_int_equal(fstatat(root, "b", &b, 0), 0);
	assert_int_equal(b.st_ino, a.st_ino);
	assert_int_equal(fstatat(root, "l", &b, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISREG(b.st_mode));
	tree_get_counts(t, &counts);
	assert_int_equal(counts.files, 3);
	assert_int_equal(counts.replaced, 3);
}

static void test_the_mode_of_the_top_is_handed_out(void **state)
{
	_cleanup_(fd_closep) int root = open_root(state);
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct tree_meta meta = { .mode = 0555, .mtime = { 77, 0 } };
	struct stat st;
	mode_t mode;

	assert_int_equal(tree_new(&t, root, NULL, NULL), 0);
	assert_int_equal(tree_add_dir(t, "", &meta, NULL), 0);
	assert_int_equal(add_file(t, "f", "x"), 0);
	assert_int_equal(tree_finish(t, &mode, NULL), 0);
	assert_int_equal(mode, 0555);
	assert_int_equal(fstat(root, &st), 0);
	assert_int_equal(st.st_mtim.tv_sec, 77);
	assert_int_equal(st.st_mode & 07777, 0700);
}

/* Seen failing with the words for an archive that has a file in the place of a directory. */
static void test_a_directory_that_cannot_be_opened_again_says_why(void **state)
{
	_cleanup_(fd_closep) int root = open_root(state);
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct rlimit limit, none;
	struct error err = ERROR_INIT;
	mode_t mode;
	int r;

	assert_int_equal(tree_new(&t, root, NULL, NULL), 0);
	assert_int_equal(tree_add_dir(t, "a/b", &dir_meta, NULL), 0);
	assert_int_equal(tree_finish(t, &mode, NULL), 0); /* nothing is in the table now */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 3, limit.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = tree_add_dir(t, "a/b", &dir_meta, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(r, -EMFILE);
	assert_string_equal(err.text, "open a: Too many open files");
	assert_int_equal(tree_add_dir(t, "a/b", &dir_meta, &err), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, unit_scratch_setup, unit_scratch_teardown)
		T(test_many_directories),
		T(test_what_is_refused),
		T(test_names_of_one_hash_are_not_compared_with_each_other),
		T(test_the_last_one_wins),
		T(test_the_mode_of_the_top_is_handed_out),
		T(test_a_directory_that_cannot_be_opened_again_says_why),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
