#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "daemon/engines/image/sqfs-cache.h"

enum { UNIT = 4096, THREADS = 8 };

struct filler {
	atomic_uint n_fills;
	unsigned delay_us;
	int result;
};

static int fill(void *arg, uint64_t key, struct sqfs_block *block)
{
	struct filler *f = arg;

	atomic_fetch_add(&f->n_fills, 1);
	if (f->delay_us)
		usleep(f->delay_us);
	if (f->result < 0)
		return f->result;
	memset(block->data, (int)(key & 0xff), UNIT);
	memcpy(block->data, &key, sizeof(key));
	block->size = UNIT;
	block->next = key + 1;
	return 0;
}

static void check_block(const struct sqfs_block *b, uint64_t key)
{
	uint64_t got;

	memcpy(&got, b->data, sizeof(got));
	assert_int_equal(got, key);
	assert_int_equal(b->data[UNIT - 1], key & 0xff);
	assert_int_equal(b->next, key + 1);
}

static void test_keeps_what_fits_and_no_more(void **state)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	struct filler f = { 0 };
	struct sqfs_cache_stats stats;
	const struct sqfs_block *b;

	assert_int_equal(sqfs_cache_new(&c, 64 * UNIT, UNIT), 0);
	for (uint64_t round = 0; round < 2; round++) {
		for (uint64_t key = 0; key < 1000; key++) {
			assert_int_equal(sqfs_cache_acquire(c, key * 7919, fill, &f, &b), 0);
			check_block(b, key * 7919);
			sqfs_cache_release(c, b);
			/* the last one is there */
			assert_int_equal(sqfs_cache_acquire(c, key * 7919, fill, &f, &b), 0);
			sqfs_cache_release(c, b);
		}
	}
	sqfs_cache_get_stats(c, &stats);
	assert_true(stats.n_buffers <= 64);
	assert_true(stats.n_hits >= 2000);
	assert_int_equal(stats.n_fills, f.n_fills);
}

static void test_what_is_held_stays_past_the_limit(void **state)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	const struct sqfs_block *held[200];
	struct sqfs_cache_stats stats;
	struct filler f = { 0 };

	assert_int_equal(sqfs_cache_new(&c, 8 * UNIT, UNIT), 0);
	for (uint64_t key = 0; key < ARRAY_SIZE(held); key++)
		assert_int_equal(sqfs_cache_acquire(c, key, fill, &f, &held[key]), 0);
	for (uint64_t key = 0; key < ARRAY_SIZE(held); key++)
		check_block(held[key], key);
	for (uint64_t key = 0; key < ARRAY_SIZE(held); key++)
		sqfs_cache_release(c, held[key]);
	sqfs_cache_get_stats(c, &stats);
	assert_true(stats.n_buffers <= 8);
}

static void test_failure_is_told_and_forgotten(void **state)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	struct filler f = { .result = -EIO };
	const struct sqfs_block *b;

	assert_int_equal(sqfs_cache_new(&c, 8 * UNIT, UNIT), 0);
	assert_int_equal(sqfs_cache_acquire(c, 5, fill, &f, &b), -EIO);
	assert_int_equal(sqfs_cache_acquire(c, 5, fill, &f, &b), -EIO);
	assert_int_equal(f.n_fills, 2);
	f.result = 0;
	assert_int_equal(sqfs_cache_acquire(c, 5, fill, &f, &b), 0);
	check_block(b, 5);
	sqfs_cache_release(c, b);
}

struct asker {
	struct sqfs_cache *c;
	struct filler *f;
	pthread_barrier_t *barrier;
	unsigned seed;
	int result;
};

static void *ask_one(void *arg)
{
	struct asker *a = arg;
	const struct sqfs_block *b;

	pthread_barrier_wait(a->barrier);
	a->result = sqfs_cache_acquire(a->c, 42, fill, a->f, &b);
	if (a->result == 0)
		sqfs_cache_release(a->c, b);
	return NULL;
}

static void run_askers(struct sqfs_cache *c, struct filler *f, void *(*run)(void *),
		       struct asker askers[static THREADS])
{
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		askers[i] = (struct asker){ c, f, &barrier, i + 1, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, run, &askers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
}

static void test_many_who_ask_at_once_share_one_fill(void **state)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	struct filler f = { .delay_us = 200000 };
	struct asker askers[THREADS];
	struct sqfs_cache_stats stats;

	assert_int_equal(sqfs_cache_new(&c, 64 * UNIT, UNIT), 0);
	run_askers(c, &f, ask_one, askers);
	assert_int_equal(f.n_fills, 1);
	sqfs_cache_get_stats(c, &stats);
	assert_int_equal(stats.n_waits + stats.n_hits, THREADS - 1);
}

static void test_many_who_wait_share_one_failure(void **state)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	struct filler f = { .delay_us = 200000, .result = -EIO };
	struct asker askers[THREADS];

	assert_int_equal(sqfs_cache_new(&c, 64 * UNIT, UNIT), 0);
	run_askers(c, &f, ask_one, askers);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(askers[i].result, -EIO);
}

static void *ask_many(void *arg)
{
	struct asker *a = arg;

	pthread_barrier_wait(a->barrier);
	for (int i = 0; i < 20000 && a->result == 0; i++) {
		const struct sqfs_block *b;
		uint64_t key, got;

		a->seed = a->seed * 1103515245u + 12345u;
		key = a->seed >> 16 & 0xff;
		a->result = sqfs_cache_acquire(a->c, key, fill, a->f, &b);
		if (a->result < 0)
			break;
		memcpy(&got, b->data, sizeof(got));
		if (got != key || b->next != key + 1)
			a->result = -EBADMSG;
		sqfs_cache_release(a->c, b);
	}
	return NULL;
}

static void test_threads_get_what_they_asked_for(void **state)
{
	_cleanup_(sqfs_cache_freep) struct sqfs_cache *c = NULL;
	struct filler f = { 0 };
	struct asker askers[THREADS];

	assert_int_equal(sqfs_cache_new(&c, 32 * UNIT, UNIT), 0);
	run_askers(c, &f, ask_many, askers);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(askers[i].result, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keeps_what_fits_and_no_more),
		cmocka_unit_test(test_what_is_held_stays_past_the_limit),
		cmocka_unit_test(test_failure_is_told_and_forgotten),
		cmocka_unit_test(test_many_who_ask_at_once_share_one_fill),
		cmocka_unit_test(test_many_who_wait_share_one_failure),
		cmocka_unit_test(test_threads_get_what_they_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
