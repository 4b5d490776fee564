/* Which blocks are filled before they are asked for. */
#include "tests/unit/daemon/engines/image/sqfs-unit.h"

#include "daemon/engines/image/sqfs-ahead.h"

enum { BLOCK = 4096, N_BLOCKS = 3000, REACH = 5 };

struct ahead {
	struct sqfs_image *img;
	struct sqfs_ahead *ahead;
	struct sqfs_inode inode;
	atomic_uint n_idle;
	int fd;
};

static void begin(struct ahead *a, const char *root)
{
	uint64_t content[BLOCK / 8];
	char path[4096];
	int fd;

	*a = (struct ahead){ .n_idle = 1 };
	snprintf(path, sizeof(path), "%s/tree", root);
	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/tree/long", root);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	for (uint64_t i = 0; i < N_BLOCKS; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(content); k++)
			content[k] = i + 1;
		assert_int_equal(write(fd, content, BLOCK), BLOCK);
	}
	close(fd);
	if (!sqfs_unit_pack(root, "-comp gzip -b 4096"))
		skip();
	a->fd = sqfs_unit_open(root);
	assert_int_equal(sqfs_image_open(&a->img, a->fd, 4 << 20, NULL), 0);
	assert_int_equal(sqfs_dir_resolve(a->img, "long", &a->inode), 1);
	assert_int_equal(a->inode.file.n_blocks, N_BLOCKS);
	assert_int_equal(sqfs_ahead_new(&a->ahead, a->img, &a->n_idle, REACH), 0);
}

static void end(struct ahead *a)
{
	sqfs_ahead_free(a->ahead);
	sqfs_image_close(a->img);
	close(a->fd);
}

/* Says that blocks were read from there on; returns how many blocks have been filled so far. */
static uint64_t run(struct ahead *a, uint64_t block, uint64_t n)
{
	struct sqfs_cache_stats meta, data;

	sqfs_ahead_run(a->ahead, &a->inode, block * BLOCK, n * BLOCK);
	sqfs_image_get_stats(a->img, &meta, &data);
	return data.n_fills;
}

static void test_a_reader_in_order_finds_the_next_blocks(void **state)
{
	struct sqfs_cache_stats meta, data;
	struct volume_extent x[8];
	struct ahead a;
	size_t n;

	begin(&a, *state);
	assert_int_equal(run(&a, 0, 2), 0);
	assert_int_equal(run(&a, 2, 2), REACH);
	assert_int_equal(run(&a, 4, 1), REACH + 1);
	/* what it reads now is there */
	assert_int_equal(sqfs_file_read(a.img, &a.inode, 5 * BLOCK, REACH * BLOCK, x, &n), 0);
	sqfs_file_release(a.img, x, n);
	sqfs_image_get_stats(a.img, &meta, &data);
	assert_int_equal(data.n_fills, REACH + 1);
	assert_int_equal(data.n_hits, REACH);
	/* the file ends */
	assert_int_equal(run(&a, 5, N_BLOCKS - 7), REACH + 1 + 2);
	assert_int_equal(run(&a, N_BLOCKS - 2, 9), REACH + 1 + 2);
	assert_int_equal(run(&a, N_BLOCKS + 5, 1), REACH + 1 + 2);
	end(&a);
}

static void test_only_spare_threads_read_ahead(void **state)
{
	struct ahead a;

	begin(&a, *state);
	a.n_idle = 0;
	assert_int_equal(run(&a, 0, 2), 0);
	assert_int_equal(run(&a, 2, 2), 0);
	a.n_idle = 1;
	assert_int_equal(run(&a, 4, 2), REACH);
	end(&a);
}

static void test_nothing_is_read_ahead_of_jumps(void **state)
{
	struct sqfs_inode other;
	struct ahead a;

	begin(&a, *state);
	other = a.inode;
	for (uint64_t i = 1; i < 50; i++)
		assert_int_equal(run(&a, i * 7 % 9 * 300, 1), 0);
	/* another file's place, which takes the same slot */
	a.inode = other;
	assert_int_equal(run(&a, 0, 1), 0);
	a.inode.ref++;
	assert_int_equal(run(&a, 1, 1), 0);
	end(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_reader_in_order_finds_the_next_blocks),
		cmocka_unit_test(test_only_spare_threads_read_ahead),
		cmocka_unit_test(test_nothing_is_read_ahead_of_jumps),
	};

	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
