/*
 * Limits of a site and a user: a higher one never means fewer at once, and never more than it says.
 * MaxReaders=64 once meant 16 connections, where 63 meant 63; threads=257 meant four.
 */
#include "tests/unit/unit.h"

#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "daemon/engines/copy/copy-concurrency.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/worker/ctx-internal.h"
#include "daemon/worker/web/fetch-concurrency.h"

static size_t get_copy(size_t limit)
{
	struct copy_concurrency p;

	copy_concurrency_init(&p, 1, limit, 100);
	copy_concurrency_deinit(&p);
	return p.max;
}

static size_t get_fetch(size_t limit)
{
	struct fetch_concurrency p;

	fetch_concurrency_init(&p, limit);
	return p.max;
}

static size_t get_threads(size_t limit)
{
	_cleanup_(kv_freep) struct kv *task = proto_new(PROTO_OP_TASK);
	struct ctx_private priv = { .task = task };
	struct ctx ctx = { .priv = &priv };
	struct error err = ERROR_INIT;

	kv_set(task, "name", "x");
	kv_set(task, "item", "/x");
	kv_set_u64(task, "threads", limit);
	assert_int_equal(ctx_task_read(&ctx, &err), 0);
	assert_true(ctx.policy.threads_given);
	dataset_list_deinit(&priv.list);
	return ctx.policy.threads;
}

static size_t get_most(size_t limit)
{
	return stage_io_get_most(limit, 16, 64);
}

static void test_a_higher_limit_never_means_fewer(void **state)
{
	static const struct {
		const char *what;
		size_t (*get)(size_t limit);
		size_t most;
	} limits[] = {
		{ "MaxReaders of files", get_copy, COPY_CONCURRENCY_MAX },
		{ "MaxReaders of a web server", get_fetch, FETCH_CONCURRENCY_MAX },
		{ "threads", get_threads, 256 },
		{ "any", get_most, 64 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		for (size_t limit = 1; limit < 2000; limit++) {
			size_t expect = limit < limits[i].most ? limit : limits[i].most;

			if (limits[i].get(limit) != expect)
				fail_msg("%s: %zu is %zu", limits[i].what, limit,
					 limits[i].get(limit));
		}
}

/* fetch_concurrency_most() with the threads= of a user */
static void test_users_ask_for_less_and_not_for_more(void **state)
{
	assert_int_equal(fetch_concurrency_most(0, 0), FETCH_CONCURRENCY_USUAL);
	assert_int_equal(fetch_concurrency_most(0, 1), 1);
	assert_int_equal(fetch_concurrency_most(0, 50), FETCH_CONCURRENCY_USUAL);
	assert_int_equal(fetch_concurrency_most(8, 3), 3);
	assert_int_equal(fetch_concurrency_most(8, 20), 8);
	assert_int_equal(fetch_concurrency_most(1, 0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_higher_limit_never_means_fewer),
		cmocka_unit_test(test_users_ask_for_less_and_not_for_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
