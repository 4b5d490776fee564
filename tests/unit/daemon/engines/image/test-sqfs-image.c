/* Images by mksquashfs, with every compressor and layout it has, read back through the reader. */
#include "tests/unit/daemon/engines/image/sqfs-unit.h"

#include "daemon/engines/image/sqfs-check.h"

#define MANY 3000

/* clang-format off */
static const struct {
	const char *options;
	size_t step; /* bytes a read */
	bool optional; /* mksquashfs may lack the compressor */
} cases[] = {
	{ "-comp gzip",                        131072, false },
	{ "-comp gzip -b 4096",                1 << 20, false },
	{ "-comp gzip -b 1M",                  131072, false },
	{ "-comp lzo",                         131072, true },
	{ "-comp lz4 -b 16K",                  100000, true },
	{ "-comp lz4 -Xhc",                    131072, true },
	{ "-comp xz",                          131072, true },
	{ "-comp xz -Xbcj x86 -b 64K",         131072, true },
	{ "-comp zstd",                        131072, true },
	{ "-comp zstd -b 1M -Xcompression-level 1", 1 << 20, true },
	{ "-comp gzip -no-fragments",          131072, false },
	{ "-comp gzip -always-use-fragments",  4096, false },
	{ "-noI -noD -noF -noX",               131072, false },
	{ "-noI",                              131072, false },
	{ "-noD",                              131072, false },
	{ "-noF -b 8192",                      131072, false },
	{ "-no-exports -no-sparse",            131072, false },
	{ "-no-duplicates -no-xattrs",         99999, false },
	{ "-nopad",                            131072, false },
};
/* clang-format on */

static void test_reads_what_mksquashfs_wrote(void **state)
{
	const char *root = *state;
	size_t n_read = 0;

	sqfs_unit_tree(root, MANY);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
		struct sqfs_counts counts;
		struct error err = ERROR_INIT;
		char tree[4096];
		size_t n;
		int fd;

		if (!sqfs_unit_pack(root, cases[i].options)) {
			if (!cases[i].optional && n_read > 0)
				fail_msg("mksquashfs %s", cases[i].options);
			continue;
		}
		n_read++;
		fd = sqfs_unit_open(root);
		if (sqfs_image_open(&img, fd, 4 << 20, &err) < 0 ||
		    sqfs_check_run(fd, &counts, NULL, NULL, &err) < 0)
			fail_msg("%s: %s", cases[i].options, err.text);
		snprintf(tree, sizeof(tree), "%s/tree", root);
		n = sqfs_unit_compare_dir(img, sqfs_inode_get_root(img), open(tree, O_RDONLY),
					  cases[i].step);
		assert_int_equal(n, counts.n_entries);
		assert_int_equal(counts.n_hidden, 1);
		assert_int_equal(counts.n_dirs, 104);
		/* a hard link is two entries and one file */
		assert_int_equal(counts.n_files + counts.n_dirs - 1 + counts.n_symlinks + 1 + 1,
				 counts.n_entries);
		close(fd);
	}
	if (n_read == 0)
		skip();
}

/* Any page size, any place to start: the same names in the same order. */
static void test_listing_goes_on_at_every_cookie(void **state)
{
	const char *root = *state;
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	struct sqfs_dirent ent, first;
	struct sqfs_inode inode;
	struct sqfs_dir d, e;
	size_t n = 0;
	int fd;

	if (!sqfs_unit_pack(root, "-comp gzip"))
		skip();
	fd = sqfs_unit_open(root);
	assert_int_equal(sqfs_image_open(&img, fd, 4 << 20, NULL), 0);
	assert_int_equal(sqfs_dir_resolve(img, "many", &inode), 1);
	assert_true(inode.dir.n_index > 0); /* else this tests nothing of the index */
	assert_int_equal(sqfs_dir_begin(&d, img, &inode, SQFS_DIR_START), 0);
	while (sqfs_dir_read(&d, &ent) == 1) {
		int r, more;

		n++;
		assert_int_equal(sqfs_dir_begin(&e, img, &inode, ent.cookie), 0);
		more = sqfs_dir_read(&e, &first);
		sqfs_dir_end(&e);
		assert_int_equal(more, n < MANY);
		if (more == 1) {
			assert_int_equal(memcmp(first.name, "entry-", 6), 0);
			assert_int_equal(atoi(first.name + 6), n);
		}
		r = sqfs_dir_begin(&e, img, &inode, ent.cookie + (UINT64_C(1) << 45));
		assert_int_equal(r, -EINVAL);
	}
	sqfs_dir_end(&d);
	assert_int_equal(n, MANY);
	close(fd);
}

static void test_names_that_are_not_there_are_not_found(void **state)
{
	static const char *const names[] = { "",	"a",   "entry-",      "entry-000000x",
					     "entry-9", "zzz", "entry-00150", "\xff",
					     "\x01" };
	const char *root = *state;
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	struct sqfs_inode inode;
	struct sqfs_dirent ent;
	int fd;

	if (!sqfs_unit_pack(root, "-comp gzip"))
		skip();
	fd = sqfs_unit_open(root);
	assert_int_equal(sqfs_image_open(&img, fd, 4 << 20, NULL), 0);
	assert_int_equal(sqfs_dir_resolve(img, "many", &inode), 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(sqfs_dir_find(img, &inode, names[i], &ent), 0);
	assert_int_equal(sqfs_dir_find(img, &inode, "entry-000000", &ent), 1);
	assert_int_equal(sqfs_dir_find(img, &inode, "entry-002999", &ent), 1);
	assert_int_equal(sqfs_dir_resolve(img, "", &inode), 1);
	assert_int_equal(sqfs_dir_resolve(img, "sizes/./size-1/", &inode), 1);
	assert_int_equal(sqfs_dir_resolve(img, "sizes/size-1/x", &inode), 0);
	assert_int_equal(sqfs_dir_resolve(img, "link/x", &inode), 0);
	close(fd);
}

/* Past 2048 blocks the marks of sqfs-index.h are in use. */
static void test_reads_anywhere_in_a_file_of_many_blocks(void **state)
{
	const char *root = *state;
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	const uint64_t size = UINT64_C(9000) * 4096 + 123;
	struct sqfs_inode inode;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/tree/long", root);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	for (uint64_t pos = 0; pos < size; pos += 4096)
		if (pos / 4096 % 3)
			assert_int_equal(pwrite(fd, &pos, sizeof(pos), (off_t)pos), sizeof(pos));
	close(fd);
	if (!sqfs_unit_pack(root, "-comp gzip -b 4096"))
		skip();
	fd = sqfs_unit_open(root);
	assert_int_equal(sqfs_image_open(&img, fd, 4 << 20, NULL), 0);
	assert_int_equal(sqfs_dir_resolve(img, "long", &inode), 1);
	assert_int_equal(inode.size, size);
	for (uint64_t i = 0, block = 0; i < 4000; i++, block = (block * 31 + 4001) % 8999) {
		struct volume_extent x[4];
		uint64_t value;
		size_t n;

		assert_int_equal(sqfs_file_read(img, &inode, block * 4096, 8, x, &n), 0);
		assert_int_equal(n, 1);
		assert_int_equal(sqfs_file_load(img, x, n, &value), 0);
		memmove(&value, x[0].data, 8);
		assert_int_equal(value, block % 3 ? block * 4096 : 0);
		sqfs_file_release(img, x, n);
	}
	close(fd);
	unlink(path);
}

/* Uncompressed content is found, not cached; blocks that are neighbours are one piece. */
static void test_stored_content_takes_no_room_in_the_cache(void **state)
{
	const char *root = *state;
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	_cleanup_(freep) char *data = NULL;
	struct sqfs_cache_stats meta, cached;
	struct sqfs_inode inode;
	struct volume_extent x[70];
	size_t n;
	int fd;

	if (!sqfs_unit_pack(root, "-noD -noF -b 4096"))
		skip();
	fd = sqfs_unit_open(root);
	assert_int_equal(sqfs_image_open(&img, fd, 4 << 20, NULL), 0);
	assert_int_equal(sqfs_dir_resolve(img, "sizes/size-400000", &inode), 1);
	data = sqfs_unit_read(img, &inode, 4096);
	assert_int_equal(sqfs_file_read(img, &inode, 5000, 260000, x, &n), 0);
	assert_int_equal(n, 1);
	assert_null(x[0].data);
	assert_int_equal(x[0].size, 260000);
	sqfs_file_release(img, x, n);
	sqfs_image_get_stats(img, &meta, &cached);
	assert_int_equal(cached.n_fills, 0);

	/* cut below the reader's feet */
	assert_int_equal(ftruncate(fd, (off_t)inode.file.start + 100000), 0);
	assert_int_equal(sqfs_file_read(img, &inode, 5000, 260000, x, &n), 0);
	assert_int_equal(sqfs_file_load(img, x, n, data), -EIO);
	sqfs_file_release(img, x, n);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_what_mksquashfs_wrote),
		cmocka_unit_test(test_listing_goes_on_at_every_cookie),
		cmocka_unit_test(test_names_that_are_not_there_are_not_found),
		cmocka_unit_test(test_reads_anywhere_in_a_file_of_many_blocks),
		cmocka_unit_test(test_stored_content_takes_no_room_in_the_cache),
	};

	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
