/* Blocks of deflated members: right from every place, within the memory, none where damaged. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/stat.h>

#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/inflate.h"
#include "daemon/engines/archive/zip-scan.h"
#include "daemon/engines/image/zip-blocks.h"

#define N_BLOCKS 70 /* some intervals between points */
#define SIZE ((uint64_t)N_BLOCKS * ZIP_BLOCK_SIZE - 5)
#define SMALL_MEMORY (1u << 20)
#define N_THREADS 4

struct zip {
	int fd;
	uint8_t *data;
	struct zip_member m;
	int change; /* what is said of the file */
};

static int check(void *arg)
{
	return ((const struct zip *)arg)->change;
}

/* A file of lines that are all different, as zip packs it. */
static void make_file(const char *dir, struct zip *z)
{
	_cleanup_(freep) char *path = NULL, *command = NULL;
	FILE *f;

	assert_true(asprintf(&path, "%s/file", dir) > 0);
	assert_true(asprintf(&command, "cd '%s' && zip -q z.zip file", dir) > 0);
	z->data = malloc(SIZE + 16);
	assert_non_null(z->data);
	for (uint64_t i = 0; i < SIZE; i += 10)
		snprintf((char *)z->data + i, 16, "%09llu\n",
			 (unsigned long long)(i * 2654435761u % 999999937));
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(z->data, 1, SIZE, f), SIZE);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(system(command), 0);
}

static void open_zip(const char *dir, struct zip *z)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	_cleanup_(freep) char *path = NULL;
	const struct archive_record *rec;
	struct zip_scan scan = { 0 };
	struct stat st;

	assert_true(asprintf(&path, "%s/z.zip", dir) > 0);
	z->fd = scan.fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(z->fd >= 0 && fstat(z->fd, &st) == 0);
	scan.size = (uint64_t)st.st_size;
	assert_int_equal(archive_index_new(&x, 0, NULL), 0);
	assert_int_equal(zip_scan(x, &scan, NULL), 0);
	assert_int_equal(archive_index_finish(x, NULL, NULL), 0);
	rec = archive_index_get(x, archive_index_get(x, ARCHIVE_INDEX_ROOT)->start);
	assert_true(rec->is_deflated);
	assert_int_equal(rec->size, SIZE);
	z->m = (struct zip_member){ 7, rec->crc, rec->start, rec->packed, rec->size };
}

static void make_zip(const char *dir, struct zip *z)
{
	*z = (struct zip){ .fd = -1 };
	make_file(dir, z);
	open_zip(dir, z);
}

static void free_zip(struct zip *z)
{
	free(z->data);
	close(z->fd);
}

static struct zip_blocks *open_blocks(struct zip *z, size_t memory)
{
	struct zip_blocks *b;

	assert_int_equal(zip_blocks_new(&b, z->fd, check, z, memory), 0);
	return b;
}

/* Is block i what it was before it was packed? */
static bool is_right(struct zip_blocks *b, const struct zip *z, uint64_t i)
{
	const struct sqfs_block *block = NULL;
	uint64_t at = i * ZIP_BLOCK_SIZE;
	size_t size = SIZE - at < ZIP_BLOCK_SIZE ? (size_t)(SIZE - at) : ZIP_BLOCK_SIZE;
	bool right;

	if (zip_blocks_acquire(b, &z->m, i, &block) < 0)
		return false;
	right = block->size == size && memcmp(block->data, z->data + at, size) == 0;
	zip_blocks_release(b, block);
	return right;
}

static void test_blocks_are_right_in_any_order(void **state)
{
	struct zip_blocks *b;
	struct zip z;

	make_zip(*state, &z);
	b = open_blocks(&z, SMALL_MEMORY);
	for (uint64_t i = 0; i < N_BLOCKS; i++) /* on the way, states are kept */
		assert_true(is_right(b, &z, i));
	for (uint64_t i = N_BLOCKS; i-- > 0;)
		assert_true(is_right(b, &z, i));
	for (uint64_t i = 0; i < N_BLOCKS; i += 3)
		assert_true(is_right(b, &z, i * 37 % N_BLOCKS));
	zip_blocks_free(b);
	free_zip(&z);
}

struct reader {
	pthread_t thread;
	struct zip_blocks *b;
	const struct zip *z;
	uint64_t step;
	bool right;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;

	r->right = true;
	for (uint64_t i = 0; i < N_BLOCKS; i++)
		r->right = is_right(r->b, r->z, i * r->step % N_BLOCKS) && r->right;
	return NULL;
}

static void test_readers_of_one_member_do_not_meet(void **state)
{
	static const uint64_t steps[N_THREADS] = { 1, 1, 1, 3 };
	struct reader readers[N_THREADS];
	struct zip_blocks *b;
	struct zip z;

	make_zip(*state, &z);
	b = open_blocks(&z, SMALL_MEMORY);
	for (size_t i = 0; i < N_THREADS; i++) {
		readers[i] = (struct reader){ .b = b, .z = &z, .step = steps[i] };
		assert_int_equal(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]),
				 0);
	}
	zip_blocks_set_memory(b, SMALL_MEMORY / 2); /* while they read */
	for (size_t i = 0; i < N_THREADS; i++) {
		pthread_join(readers[i].thread, NULL);
		assert_true(readers[i].right);
	}
	zip_blocks_free(b);
	free_zip(&z);
}

/* Its members are many here, and each would have points of its own. */
static void test_states_keep_to_the_memory(void **state)
{
	struct zip_blocks *b;
	struct mallinfo2 before, after;
	struct zip z;

	make_zip(*state, &z);
	b = open_blocks(&z, SMALL_MEMORY);
	before = mallinfo2();
	for (uint32_t id = 0; id < 8; id++) {
		z.m.id = id;
		assert_true(is_right(b, &z, N_BLOCKS - 1));
	}
	after = mallinfo2();
	/* The smallest cache, the least of states, and one in use. Sanitizers count none. */
	assert_true(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd <
		    8 * (ZIP_BLOCK_SIZE + 8192) + 6 * INFLATE_MEMORY + (1u << 18));
	zip_blocks_free(b);
	free_zip(&z);
}

static void test_damage_is_an_error(void **state)
{
	const struct sqfs_block *block;
	struct zip_blocks *b;
	struct zip_member m;
	struct zip z;

	make_zip(*state, &z);
	b = open_blocks(&z, SMALL_MEMORY);
	m = z.m;
	z.m.crc++; /* the last block alone knows */
	assert_true(is_right(b, &z, N_BLOCKS - 2));
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 1, &block), -EBADMSG);
	z.m = m;
	assert_true(is_right(b, &z, N_BLOCKS - 1));

	z.m = m; /* more data than it says, and less */
	z.m.id++;
	z.m.size = (N_BLOCKS - 1) * (uint64_t)ZIP_BLOCK_SIZE;
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 2, &block), -EBADMSG);
	z.m.size = m.size + 1;
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 1, &block), -EBADMSG);
	z.m.size = m.size + ZIP_BLOCK_SIZE;
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS, &block), -EBADMSG);
	z.m.size = m.size;
	z.m.packed = m.packed - 9;
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 1, &block), -EBADMSG);
	z.m.packed = m.packed + 2 * INFLATE_AHEAD;
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 1, &block), -EBADMSG);

	z.m = m; /* a small one */
	z.m.id += 2;
	z.m.size = 1000;
	assert_int_equal(zip_blocks_acquire(b, &z.m, 0, &block), -EBADMSG);
	zip_blocks_free(b);
	free_zip(&z);
}

/* A zip that is shorter has changed, too. Seen failing with the error of a bad disk for it. */
static void test_what_changes_gives_no_block(void **state)
{
	const struct sqfs_block *block;
	struct zip_blocks *b;
	struct zip z;

	make_zip(*state, &z);
	b = open_blocks(&z, SMALL_MEMORY);
	assert_true(is_right(b, &z, 0));
	z.change = -ESTALE;
	assert_int_equal(zip_blocks_acquire(b, &z.m, 50, &block), -ESTALE);
	z.change = 0;
	assert_true(is_right(b, &z, 50));
	assert_int_equal(ftruncate(z.fd, 1000), 0);
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 1, &block), -EIO);
	z.change = -ESTALE;
	assert_int_equal(zip_blocks_acquire(b, &z.m, N_BLOCKS - 1, &block), -ESTALE);
	zip_blocks_free(b);
	free_zip(&z);
}

#define SCRATCH(test)                                                                              \
	cmocka_unit_test_setup_teardown(test, unit_scratch_setup, unit_scratch_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SCRATCH(test_blocks_are_right_in_any_order),
		SCRATCH(test_readers_of_one_member_do_not_meet),
		SCRATCH(test_states_keep_to_the_memory),
		SCRATCH(test_damage_is_an_error),
		SCRATCH(test_what_changes_gives_no_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
