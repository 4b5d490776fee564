/* Checksums of stored members by the bytes of their readers: in any order, in bounded memory. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/inflate.h"
#include "daemon/engines/archive/zip-scan.h"
#include "daemon/engines/image/zip-sums.h"

#define N_FILES 10u
#define SIZE 100000u
#define LARGE_SIZE (65u << 20)
#define N_THREADS 4

struct zip {
	int fd;
	struct archive_index *index;
	struct zip_sums *sums;
	uint8_t *data; /* of the file */
	uint64_t size;
};

static void open_zip(const char *path, struct zip *z)
{
	struct zip_scan scan = { 0 };
	struct stat st;

	z->fd = scan.fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(z->fd >= 0 && fstat(z->fd, &st) == 0);
	z->size = scan.size = (uint64_t)st.st_size;
	assert_int_equal(archive_index_new(&z->index, 0, NULL), 0);
	assert_int_equal(zip_scan(z->index, &scan, NULL), 0);
	assert_int_equal(archive_index_finish(z->index, NULL, NULL), 0);
	assert_int_equal(zip_sums_new(&z->sums, z->index, z->fd), 0);
	z->data = malloc(z->size);
	assert_non_null(z->data);
	assert_int_equal(pread(z->fd, z->data, z->size, 0), z->size);
}

/* N_FILES of SIZE bytes, and one of LARGE_SIZE where that is wanted. */
static void make_zip(const char *dir, struct zip *z, bool has_large)
{
	_cleanup_(freep) char *command = NULL, *path = NULL;

	assert_true(asprintf(&command,
			     "cd '%s' && for i in 0 1 2 3 4 5 6 7 8 9; do head -c %u /dev/urandom "
			     ">$i; done && { %s || head -c %u /dev/zero >x; } && zip -q0 z.zip *",
			     dir, SIZE, has_large ? "false" : "true", LARGE_SIZE) > 0);
	assert_true(asprintf(&path, "%s/z.zip", dir) > 0);
	assert_int_equal(system(command), 0);
	open_zip(path, z);
}

static void free_zip(struct zip *z)
{
	zip_sums_free(z->sums);
	archive_index_free(z->index);
	close(z->fd);
	free(z->data);
}

/* Of the k-th file. */
static uint32_t get_id(const struct zip *z, unsigned k)
{
	return (uint32_t)archive_index_get(z->index, ARCHIVE_INDEX_ROOT)->start + k;
}

static const struct archive_record *get_rec(const struct zip *z, unsigned k)
{
	return archive_index_get(z->index, get_id(z, k));
}

static enum zip_sums_state get_state(const struct zip *z, unsigned k)
{
	return zip_sums_get_state(z->sums, get_id(z, k));
}

static int add(struct zip *z, unsigned k, uint64_t pos, size_t n)
{
	return zip_sums_add(z->sums, get_id(z, k), pos, z->data + get_rec(z, k)->start + pos, n);
}

static void damage(struct zip *z, unsigned k, uint64_t pos)
{
	uint64_t at = get_rec(z, k)->start + pos;

	z->data[at] ^= 1;
	assert_int_equal(pwrite(z->fd, z->data + at, 1, (off_t)at), 1);
}

static void test_sums_of_two_pieces_are_joined(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 255, 256, 4096, 70000 };
	uint8_t *data = malloc(140000);

	assert_non_null(data);
	for (size_t i = 0; i < 140000; i++)
		data[i] = (uint8_t)(i * i >> 7);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
			size_t a = sizes[i], b = sizes[k];

			assert_int_equal(zip_sums_join(inflate_add_crc(0, data, a),
						       inflate_add_crc(0, data + a, b), b),
					 inflate_add_crc(0, data, a + b));
		}
	}
	free(data);
}

/* Pieces in an order that a seed makes. Some come twice, some overlap. -EBADMSG or 0; 1: an answer
 * was not repeated. */
static int add_all(struct zip *z, unsigned k, unsigned seed)
{
	int r = 0, last = 0;

	for (unsigned i = 0; i < 3000; i++) {
		uint64_t pos = (i * 7919u + seed * 104729u) % SIZE;
		size_t n = 1 + (i + seed) * 31u % 3000;

		last = add(z, k, pos, n > SIZE - pos ? SIZE - pos : n);
		if (r != 0 && r != last)
			return 1;
		r = last;
	}
	last = add(z, k, 0, SIZE); /* what is still missing */
	return r != 0 && r != last ? 1 : last;
}

static void test_any_order_gives_the_checksum(void **state)
{
	struct zip z;

	make_zip(*state, &z, false);
	for (unsigned k = 0; k < N_FILES; k++) {
		bool is_bad = k % 2;

		if (is_bad)
			damage(&z, k, SIZE / N_FILES * k);
		assert_true(zip_sums_wants(z.sums, get_id(&z, k)));
		assert_int_equal(add_all(&z, k, k), is_bad ? -EBADMSG : 0);
		assert_int_equal((get_state(&z, k) == ZIP_SUMS_WRONG), is_bad);
		assert_int_equal(zip_sums_wants(z.sums, get_id(&z, k)), is_bad);
	}
	free_zip(&z);
}

static void test_all_but_one_byte_is_not_all(void **state)
{
	struct zip z;

	make_zip(*state, &z, false);
	damage(&z, 0, 5);
	assert_int_equal(add(&z, 0, 0, SIZE / 2), 0);
	assert_int_equal(add(&z, 0, SIZE / 2 + 1, SIZE / 2 - 1), 0);
	assert_int_equal(add(&z, 0, SIZE / 2, 1), -EBADMSG);
	free_zip(&z);
}

struct task {
	struct zip *z;
	unsigned seed;
	bool is_right;
};

static void *add_in_a_thread(void *arg)
{
	struct task *t = arg;

	t->is_right = true;
	for (unsigned k = 0; k < N_FILES; k++)
		t->is_right = add_all(t->z, k, t->seed) == (k == 3 ? -EBADMSG : 0) && t->is_right;
	return NULL;
}

static void test_threads_that_read_the_same_do_not_disturb_each_other(void **state)
{
	pthread_t threads[N_THREADS];
	struct task tasks[N_THREADS];
	struct zip z;

	make_zip(*state, &z, false);
	damage(&z, 3, 77);
	for (unsigned i = 0; i < N_THREADS; i++) {
		tasks[i] = (struct task){ &z, i, false };
		assert_int_equal(pthread_create(&threads[i], NULL, add_in_a_thread, &tasks[i]), 0);
	}
	for (unsigned i = 0; i < N_THREADS; i++)
		assert_true(pthread_join(threads[i], NULL) == 0 && tasks[i].is_right);
	for (unsigned k = 0; k < N_FILES; k++)
		assert_int_equal((get_state(&z, k) == ZIP_SUMS_WRONG), k == 3);
	free_zip(&z);
}

/* Too many pieces for the memory: what was known of the first files is lost, and the next reader of
 * each makes up for it. */
static void test_what_is_lost_is_read_again(void **state)
{
	unsigned n_lost = 0;
	struct zip z;

	make_zip(*state, &z, false);
	damage(&z, 0, 5);
	damage(&z, 9, 5);
	for (unsigned k = 0; k < N_FILES; k++)
		for (unsigned i = 0; i < 4000; i++)
			assert_int_equal(add(&z, k, 20 * i, 1), 0);
	for (unsigned k = 0; k < N_FILES; k++)
		n_lost += get_state(&z, k) == ZIP_SUMS_LOST;
	assert_in_range(n_lost, 1, 3);
	assert_int_equal(get_state(&z, 0), ZIP_SUMS_LOST);
	assert_int_equal(get_state(&z, 9), ZIP_SUMS_UNKNOWN);
	assert_int_equal(add(&z, 0, 1, 1), -EBADMSG);
	assert_int_equal(add(&z, 1, 1, 1), 0);
	assert_int_equal(get_state(&z, 1), ZIP_SUMS_RIGHT);
	assert_int_equal(add(&z, 9, 1, 1), 0);
	assert_int_equal(add(&z, 9, 0, SIZE), -EBADMSG);
	free_zip(&z);
}

/* One file alone does not take all of the memory. */
static void test_a_large_member_read_in_too_many_places_is_left(void **state)
{
	struct zip z;

	make_zip(*state, &z, true);
	damage(&z, N_FILES, 5);
	assert_int_equal(add(&z, 0, 0, 1), 0);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(add(&z, N_FILES, 4096 * i, 1), 0);
	assert_int_equal(get_state(&z, N_FILES), ZIP_SUMS_LEFT);
	assert_false(zip_sums_wants(z.sums, get_id(&z, N_FILES)));
	assert_int_equal(get_state(&z, 0), ZIP_SUMS_UNKNOWN);
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(add(&z, 1, 2 * i, 1), 0);
	assert_int_equal(get_state(&z, 1), ZIP_SUMS_RIGHT);
	free_zip(&z);
}

#define SCRATCH(test)                                                                              \
	cmocka_unit_test_setup_teardown(test, unit_scratch_setup, unit_scratch_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_of_two_pieces_are_joined),
		SCRATCH(test_any_order_gives_the_checksum),
		SCRATCH(test_all_but_one_byte_is_not_all),
		SCRATCH(test_threads_that_read_the_same_do_not_disturb_each_other),
		SCRATCH(test_what_is_lost_is_read_again),
		SCRATCH(test_a_large_member_read_in_too_many_places_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
