/* An image of which a part is in a copy: what is read from where. */
#include "tests/unit/daemon/engines/image/sqfs-unit.h"

#include <sys/mman.h>

#include "daemon/engines/image/sqfs-copy.h"

enum { PIECE = SQFS_COPY_PIECE };

/* clang-format off */
static const struct {
	uint64_t offset;
	size_t size;
	bool has;
} cases[] = { /* pieces 1 and 2 of 4, the last of which has one byte */
	{ 0,                      1,         false },
	{ PIECE - 1,              1,         false },
	{ PIECE - 1,              2,         false },
	{ PIECE,                  1,         true  },
	{ PIECE,                  2 * PIECE, true  },
	{ PIECE,                  2 * PIECE + 1, false },
	{ 2 * PIECE - 1,          2,         true  },
	{ 3ULL * PIECE - 1,       1,         true  },
	{ 3ULL * PIECE,           1,         false },
	{ 4ULL * PIECE,           1,         false }, /* outside */
	{ UINT64_MAX,             1,         false },
	{ UINT64_MAX - 5,         10,        false }, /* around the corner */
	{ PIECE + 7,              0,         true  },
};
/* clang-format on */

static void test_bytes_are_there_when_all_their_pieces_are(void **state)
{
	_cleanup_(sqfs_copy_freep) struct sqfs_copy *c = sqfs_copy_new(7, 3ULL * PIECE + 1);

	assert_int_equal(sqfs_copy_get_fd(c), 7);
	assert_false(sqfs_copy_has(c, PIECE, 1));
	sqfs_copy_add(c, PIECE);
	sqfs_copy_add(c, 2 * PIECE);
	sqfs_copy_add(c, 2 * PIECE); /* twice is once */
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (sqfs_copy_has(c, cases[i].offset, cases[i].size) != cases[i].has)
			fail_msg("%llu bytes at %llu", (unsigned long long)cases[i].size,
				 (unsigned long long)cases[i].offset);
	}
	sqfs_copy_add(c, 0);
	sqfs_copy_add(c, 3ULL * PIECE);
	sqfs_copy_add(c, 4ULL * PIECE); /* none */
	assert_true(sqfs_copy_has(c, 0, 3 * PIECE + 1));
	assert_false(sqfs_copy_has(c, 4ULL * PIECE, 1));
}

static int copy_of(int fd, off_t *sizep)
{
	int copy = memfd_create("copy", MFD_CLOEXEC);
	off_t size = lseek(fd, 0, SEEK_END);
	char *buf = malloc((size_t)size);

	assert_int_equal(pread(fd, buf, (size_t)size, 0), size);
	assert_int_equal(pwrite(copy, buf, (size_t)size, 0), size);
	free(buf);
	*sizep = size;
	return copy;
}

static void make_zeros(int fd, off_t size)
{
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(ftruncate(fd, size), 0);
}

/* There: the image may be gone. Not there: the copy may hold anything. */
static void test_reads_from_where_the_bytes_are(void **state)
{
	const char *root = *state;

	sqfs_unit_tree(root, 100);
	for (int there = 0; there < 2; there++) {
		_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
		_cleanup_(sqfs_copy_freep) struct sqfs_copy *c = NULL;
		struct error err = ERROR_INIT;
		int fd, copy;
		char tree[4096];
		off_t size;

		if (!sqfs_unit_pack(root, "-comp gzip -b 8192"))
			skip();
		fd = sqfs_unit_open(root);
		copy = copy_of(fd, &size);
		assert_int_equal(sqfs_image_open(&img, fd, 1 << 20, &err), 0);
		c = sqfs_copy_new(copy, (uint64_t)size);
		sqfs_image_set_copy(img, c);
		for (off_t at = 0; there && at < size; at += PIECE)
			sqfs_copy_add(c, (uint64_t)at);
		assert_int_equal(sqfs_image_is_copied(img, 0, (size_t)size), there);
		make_zeros(there ? fd : copy, size);
		snprintf(tree, sizeof(tree), "%s/tree", root);
		assert_true(sqfs_unit_compare_dir(img, sqfs_inode_get_root(img),
						  open(tree, O_RDONLY), 131072) > 100);
		close(copy);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_are_there_when_all_their_pieces_are),
		cmocka_unit_test(test_reads_from_where_the_bytes_are),
	};

	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
