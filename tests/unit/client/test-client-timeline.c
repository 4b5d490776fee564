#include "client/timeline.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/snapshot.h"
#include "common/util/cleanup.h"

static void add(struct snapshot_list *l, const char *node, const char *states, const char *series,
		uint64_t age)
{
	struct kv *kv;

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "name", "a");
	kv_set(kv, "state", "ready");
	kv_set(kv, "node", node);
	if (states)
		kv_set(kv, "states", states);
	kv_set(kv, "series", series);
	kv_set_u64(kv, "begun", 5000);
	kv_set_u64(kv, "age", age);
	assert_int_equal(snapshot_list_update(l, &kv, NULL), 0);
}

static void test_what_is_malformed_is_refused(void **state)
{
	static const struct {
		const char *states, *series;
		uint64_t age;
		int expect;
	} cases[] = {
		{ "queued:0 ready:9", "0:0 9:100", 10, 0 },
		{ "queued:0", "", 0, 0 },
		{ NULL, "", 10, -ENODATA },
		{ "", "", 10, -EPROTO },
		{ "queued:0 ", "", 10, -EPROTO }, /* ends with a blank */
		{ "queued:0  ready:1", "", 10, -EPROTO },
		{ "queued", "", 10, -EPROTO },
		{ "queued:", "", 10, -EPROTO },
		{ "queued:-1", "", 10, -EPROTO },
		{ "done:0", "", 10, -EPROTO },		  /* no such state */
		{ "queued:5 ready:4", "", 10, -EPROTO },  /* backwards */
		{ "queued:0 ready:11", "", 10, -EPROTO }, /* later than now */
		{ "queued:0", "x:1", 10, -EPROTO },
		{ "queued:0", "5:1 4:2", 10, -EPROTO },
		{ "queued:0", "1:99999999999999999999", 10, -EPROTO },
		{ "queued:0", "", 1ULL << 60, -EPROTO },
		{ "queued:0 queued:0 queued:0 queued:0 queued:0 queued:0 queued:0 queued:0 "
		  "queued:0 "
		  "queued:0 queued:0 queued:0 queued:0 queued:0 queued:0 queued:0 queued:0",
		  "", 1, -EPROTO }, /* 17 */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
		struct timeline t;

		add(&l, "n1", cases[i].states, cases[i].series, cases[i].age);
		if (timeline_from_snapshot(&t, &l.items[0]) != cases[i].expect)
			fail_msg("case %zu", i);
	}
}

static void test_bytes_between_two_points(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct timeline t;

	add(&l, "n1", "queued:0 staging:10 ready:40", "10:0 20:100 30:100", 60);
	assert_int_equal(timeline_from_snapshot(&t, &l.items[0]), 0);
	assert_int_equal(timeline_get_bytes(&t, 5), 0);
	assert_int_equal(timeline_get_bytes(&t, 15), 50);
	assert_int_equal(timeline_get_bytes(&t, 25), 100);
	assert_int_equal(timeline_get_bytes(&t, 50), 100);
	assert_int_equal(timeline_get_wait_ms(&t), 40);
}

static void test_1000_nodes_are_groups_with_their_slowest(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct timeline_list lines;
	struct timeline_row *rows;
	char node[16], states[64];
	size_t n_rows, n_nodes = 0, n_slowest = 0;

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(node, sizeof(node), "n%u", i);
		snprintf(states, sizeof(states), "queued:0 staging:5 ready:%u",
			 i == 777 ? 90U : 50U);
		add(&l, node, states, "", 100);
	}
	assert_int_equal(timeline_list_init(&lines, &l), 0);
	assert_int_equal(lines.begun_ms, 5000);
	assert_int_equal(lines.end_ms, 5090);
	assert_int_equal(timeline_list_get_rows(&lines, 64, &rows, &n_rows), 0);
	assert_in_range(n_rows, 32, 64);
	for (size_t i = 0; i < n_rows; i++) {
		n_nodes += rows[i].n_nodes;
		if (!rows[i].timeline->slowest)
			continue;
		n_slowest++;
		assert_string_equal(rows[i].timeline->snapshot->node, "n777");
	}
	assert_int_equal(n_nodes, 1000);
	assert_int_equal(n_slowest, 1);
	free(rows);
	timeline_list_deinit(&lines);
}

/* Seen failing when each group was shown by its slowest node: a failed node was in no row. */
static void test_a_failed_node_is_shown_for_its_group(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char node[16], text[TIMELINE_FAILED_TEXT];
	struct timeline_list lines;
	struct timeline_row *rows;
	size_t n_rows;

	for (unsigned i = 1; i <= 9; i++) {
		snprintf(node, sizeof(node), "n%u", i);
		add(&l, node,
		    i == 3   ? "queued:0 failed:2"
		    : i == 1 ? "queued:0 ready:9"
			     : "ready:5",
		    "", 20);
	}
	l.items[2].state = STAGE_FAILED;
	assert_int_equal(timeline_list_init(&lines, &l), 0);
	assert_int_equal(timeline_list_get_rows(&lines, 3, &rows, &n_rows), 0);
	assert_int_equal(n_rows, 3);
	assert_string_equal(rows[0].timeline->snapshot->node, "n3");
	assert_string_equal(rows[0].slowest, "n1");
	timeline_row_failed_to_string(&rows[0], text);
	assert_string_equal(text, ", 1 of 3 failed");
	assert_null(rows[1].slowest);
	timeline_row_failed_to_string(&rows[1], text);
	assert_string_equal(text, "");
	free(rows);
	timeline_list_deinit(&lines);
}

/* Fails where the one that takes most is taken for it. */
static void test_the_fullest_node_has_least_room_for_its_size(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char text[TIMELINE_MEMORY_TEXT];
	struct timeline_list lines;

	for (unsigned i = 1; i <= 3; i++) {
		char node[8];

		snprintf(node, sizeof(node), "n%u", i);
		add(&l, node, "queued:0 ready:5", "", 9);
	}
	assert_int_equal(timeline_list_init(&lines, &l), 0);
	assert_null(timeline_list_get_fullest(&lines));
	assert_false(timeline_list_get_memory(&lines, text));
	timeline_list_deinit(&lines);
	kv_set_u64(l.items[1].kv, "memtaken", 3 << 20);
	kv_set_u64(l.items[1].kv, "memmost", 4 << 20);
	kv_set(l.items[1].kv, "membound", "KeepFreeMemory of this node");
	kv_set_u64(l.items[2].kv, "memtaken", 6 << 20);
	kv_set_u64(l.items[2].kv, "memmost", 9 << 20);
	assert_int_equal(timeline_list_init(&lines, &l), 0);
	assert_true(timeline_list_get_memory(&lines, text));
	assert_string_equal(text, "Memory: datasets take 3.0 MiB of at most 4.0 MiB on n2. "
				  "The limit is KeepFreeMemory of this node.");
	timeline_list_deinit(&lines);
}

/* Staging takes 9 ms. Seen failing when a read after hours made the axis as long as the reads. */
static void test_the_axis_has_room_for_staging_and_reads(void **state)
{
	static const struct {
		uint64_t last_read, axis;
	} cases[] = {
		{ 0, 9 },	/* nothing was read */
		{ 5, 9 },	/* before another node was ready */
		{ 20, 20 },	/* the axis ends with the last read */
		{ 5000000, 27 } /* three times as long as staging */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
		struct timeline_list lines;

		add(&l, "n1", "queued:0 ready:9", "", 5000000);
		kv_set_u64(l.items[0].kv, "lastread", cases[i].last_read);
		assert_int_equal(timeline_list_init(&lines, &l), 0);
		assert_int_equal(lines.axis_ms, cases[i].axis);
		timeline_list_deinit(&lines);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_malformed_is_refused),
		cmocka_unit_test(test_bytes_between_two_points),
		cmocka_unit_test(test_the_fullest_node_has_least_room_for_its_size),
		cmocka_unit_test(test_1000_nodes_are_groups_with_their_slowest),
		cmocka_unit_test(test_a_failed_node_is_shown_for_its_group),
		cmocka_unit_test(test_the_axis_has_room_for_staging_and_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
