#include "daemon/stagingd/history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/protocol/kv.h"

static void test_states_and_bytes_count_from_the_first_state(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct history h = { 0 };

	assert_int_equal(kv_new(&kv), 0);
	history_to_kv(&h, kv, 1, 1);
	assert_null(kv_get(kv, "states"));
	history_add_state(&h, STAGE_QUEUED, 1000);
	history_add_state(&h, STAGE_STAGING, 1500);
	history_add_bytes(&h, 7, 2000);
	history_to_kv(&h, kv, 3000, 90000);
	assert_string_equal(kv_get(kv, "states"), "queued:0 staging:500");
	assert_string_equal(kv_get(kv, "series"), "1000:7");
	assert_int_equal(kv_get_u64(kv, "begun", 0), 88000);
	assert_int_equal(kv_get_u64(kv, "age", 0), 2000);
	assert_null(kv_get(kv, "lastread"));
	h.read_ms = 2500;
	history_to_kv(&h, kv, 3000, 90000);
	assert_int_equal(kv_get_u64(kv, "lastread", 0), 1500);
}

/* Seen failing with the loop's time, as a dataset that was queued 2^64 ms ago: no report has it. */
static void test_a_state_that_came_after_the_loops_time_is_not_later_than_the_end(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct history h = { 0 };

	assert_int_equal(kv_new(&kv), 0);
	history_add_state(&h, STAGE_QUEUED, 1002);
	history_to_kv(&h, kv, 1000, 90000);
	assert_int_equal(kv_get_u64(kv, "begun", 0), 90000);
	assert_int_equal(kv_get_u64(kv, "age", 1), 0);
	history_add_state(&h, STAGE_PROBING, 1007);
	history_to_kv(&h, kv, 1005, 90000);
	assert_string_equal(kv_get(kv, "states"), "queued:0 probing:5");
	assert_int_equal(kv_get_u64(kv, "age", 0), 5);
}

/* Seen failing without halve(): a write behind the array. */
static void test_it_is_bounded_and_keeps_the_first_and_the_last(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	struct history h = { 0 };
	const void *data;
	size_t size;

	for (uint64_t i = 0; i < 1000000; i += 100) {
		history_add_state(&h, STAGE_STAGING, i);
		history_add_bytes(&h, UINT64_MAX - 1000000 + i, i);
		assert_true(h.n_points <= HISTORY_MAX_POINTS && h.n_states <= HISTORY_MAX_STATES);
		assert_int_equal(h.points[h.n_points - 1].ms, i);
	}
	assert_true(h.n_points > HISTORY_MAX_POINTS / 4);
	assert_int_equal(h.points[0].ms, 0);
	for (size_t i = 1; i < h.n_points; i++)
		assert_true(h.points[i].ms > h.points[i - 1].ms);
	assert_int_equal(kv_new(&kv), 0);
	history_to_kv(&h, kv, UINT64_MAX, UINT64_MAX);
	assert_int_equal(kv_get_data(kv, &data, &size), 0);
	assert_true(size < 6000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states_and_bytes_count_from_the_first_state),
		cmocka_unit_test(
			test_a_state_that_came_after_the_loops_time_is_not_later_than_the_end),
		cmocka_unit_test(test_it_is_bounded_and_keeps_the_first_and_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
