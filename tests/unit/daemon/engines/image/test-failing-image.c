/*
 * The check of an image where memory or any call is missing: it says so, or has counted everything.
 * Breaks when a block that can't be read or unpacked counts as an empty one.
 */
#include "tests/unit/daemon/engines/image/sqfs-unit.h"
#include "tests/unit/failing.h"

#include "daemon/engines/image/sqfs-check.h"

enum { FILE_SIZE = 131072 };

static struct sqfs_counts expected;

static int count(int fd, struct sqfs_counts *counts)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	int r = sqfs_image_open(&img, fd, 1 << 20, NULL);

	return r < 0 ? r : sqfs_check_walk(img, counts, NULL);
}

static enum answer check_image(void *arg)
{
	struct sqfs_counts counts = { 0 };
	int r = count(*(int *)arg, &counts);

	return r == 0 && memcmp(&counts, &expected, sizeof(counts)) ? WRONG : answer_of(r);
}

/* As an error where it is not there. */
static int find(struct sqfs_image *img, const struct sqfs_inode *dir, const char *name,
		struct sqfs_inode *inode)
{
	struct sqfs_dirent found;
	int r = sqfs_dir_find(img, dir, name, &found);

	return r < 0 ? r : r == 0 ? -ENOENT : sqfs_inode_load(img, found.ref, inode);
}

/* What sqfs_unit_file() wrote in every other 512 bytes */
static bool is_right(const struct volume_extent *x, size_t n)
{
	size_t pos = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < x[i].size; k++, pos++)
			if (pos / 512 % 2 == 0 && x[i].data[k] != (pos & 0x3f))
				return false;
	return pos == FILE_SIZE;
}

static enum answer read_file(void *arg)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	struct sqfs_inode root, dir, file;
	_cleanup_(freep) char *data = NULL;
	struct volume_extent x[40];
	enum answer answer;
	size_t n;
	int r = sqfs_image_open(&img, *(int *)arg, 1 << 20, NULL);

	data = malloc(FILE_SIZE);
	r = r < 0 ? r : !data ? -ENOMEM : sqfs_inode_load(img, sqfs_inode_get_root(img), &root);
	if (r == 0)
		r = find(img, &root, "sizes", &dir);
	if (r == 0)
		r = find(img, &dir, "size-131072", &file);
	if (r == -ENOENT)
		return WRONG; /* it is there */
	if (r == 0)
		r = sqfs_file_read(img, &file, 0, FILE_SIZE, x, &n);
	if (r < 0)
		return answer_of(r);
	r = sqfs_file_load(img, x, n, data);
	answer = r < 0 ? SAID_SO : is_right(x, n) ? WHOLE : WRONG;
	sqfs_file_release(img, x, n);
	return answer;
}

static void test_nothing_is_overlooked(void **state)
{
	static const char *const options[] = { "-comp gzip",
					       "-comp zstd",
					       "-comp xz",
					       "-comp lz4",
					       "-comp gzip -b 4096 -no-fragments",
					       "-noI -noD -noF" };
	int fd;

	sqfs_unit_tree(*state, 2000);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!sqfs_unit_pack(*state, options[i]))
			skip();
		fd = sqfs_unit_open(*state);
		assert_int_equal(count(fd, &expected), 0);
		assert_true(expected.n_files > 2000);
		assert_true(walk(options[i], check_image, &fd) > 10);
		assert_true(walk(options[i], read_file, &fd) > 10);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_overlooked, unit_scratch_setup,
						unit_scratch_teardown),
	};

	if (unit_is_under_valgrind()) /* its malloc() never fails */
		return UNIT_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
