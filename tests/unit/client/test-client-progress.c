#include "client/progress-bar.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/output.h"
#include "client/snapshot.h"
#include "client/summary.h"
#include "common/dataset/dataset.h"

static void update_node(struct snapshot_list *l, const char *node, const char *name,
			const char *state, uint64_t bytes, uint64_t total)
{
	struct kv *kv;

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "name", name);
	kv_set(kv, "state", state);
	kv_set(kv, "node", node);
	kv_set_u64(kv, "bytes", bytes);
	kv_set_u64(kv, "total", total);
	kv_set_u64(kv, "rate", 2100000000);
	kv_set_u64(kv, "eta", 70000);
	kv_set_u64(kv, "elapsed", 42000);
	assert_int_equal(snapshot_list_update(l, &kv, NULL), 0);
}

static void update(struct snapshot_list *l, const char *name, const char *state, uint64_t bytes,
		   uint64_t total)
{
	update_node(l, "n3", name, state, bytes, total);
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Root may look at another user's job, whose daemon is that user's. */
static void test_what_a_daemon_calls_things_does_not_act_on_a_terminal(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_LINES), 0);
	progress_set_nodes(p, 1);
	update(&l, "a\033[2J", "staging", 50, 100);
	kv_set(l.items[0].kv, "node", "n\033]0;x\a");
	l.items[0].node = kv_get(l.items[0].kv, "node");
	l.items[0].name = kv_get(l.items[0].kv, "name");
	progress_update(p, &l, NULL);
	l.items[0].state = STAGE_READY;
	progress_update(p, &l, NULL);
	progress_free(p);
	fclose(f);
	assert_int_equal(count_lines(text), 2);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\a'));
	free(text);
}

static void test_a_line_every_ten_per_cent_elsewhere(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_LINES), 0);
	for (uint64_t i = 0; i <= 1000; i++) {
		update(&l, "imagenet", "staging", i << 20, 1000 << 20);
		progress_update(p, &l, NULL);
	}
	update(&l, "imagenet", "ready", 1000 << 20, 1000 << 20);
	progress_update(p, &l, NULL);
	progress_update(p, &l, NULL);
	progress_free(p);
	fclose(f);
	assert_int_equal(count_lines(text), 10);
	assert_non_null(strstr(text, "imagenet: 10 %  100 MiB of 1000 MiB  2.1 GB/s  ETA 1:10\n"));
	assert_non_null(strstr(text, "imagenet: ready, 1000 MiB in 0:42\n"));
	assert_null(strstr(text, "\033"));
	free(text);
}

static void test_several_datasets_have_lines_of_their_own(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_LINES), 0);
	progress_set_nodes(p, 1);
	update(&l, "a", "staging", 50, 100);
	update(&l, "b", "staging", 20, 100);
	progress_update(p, &l, NULL);
	progress_free(p);
	fclose(f);
	assert_non_null(strstr(text, "n3: a: 50 %"));
	assert_non_null(strstr(text, "n3: b: 20 %"));
	free(text);
}

/* With onfail=ignore, a wait continues after a failure. Seen failing: failed datasets were counted
 * as ready. */
static void test_the_bar_counts_what_is_ready(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_BAR), 0);
	update(&l, "a", "ready", 100, 100);
	update(&l, "b", "failed", 50, 100);
	update(&l, "c", "released", 0, 100);
	update(&l, "d", "staging", 50, 100);
	progress_update(p, &l, NULL);
	progress_free(p);
	fclose(f);
	assert_non_null(strstr(text, "d (1 of 4 ready)"));
	free(text);
}

/* Seen failing: the first 256 lines were those of four nodes, and the others had none. */
static void test_each_dataset_of_each_node_has_a_line(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char *text = NULL, node[16], name[16];
	struct progress *p;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_LINES), 0);
	progress_set_nodes(p, SUMMARY_MAX_ROWS);
	for (unsigned i = 0; i < SUMMARY_MAX_ROWS * DATASET_MAX_ITEMS; i++) {
		snprintf(node, sizeof(node), "n%u", i / DATASET_MAX_ITEMS);
		snprintf(name, sizeof(name), "d%u", i % DATASET_MAX_ITEMS);
		update_node(&l, node, name, "ready", 20, 20);
	}
	progress_update(p, &l, NULL);
	progress_free(p);
	fclose(f);
	assert_int_equal(count_lines(text), SUMMARY_MAX_ROWS * DATASET_MAX_ITEMS);
	free(text);
}

/* Seen failing with a line per node and dataset: 256 datasets of nodes had lines, the others none.
 */
static void test_many_nodes_have_one_line_a_dataset(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL, node[16];
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_LINES), 0);
	progress_set_nodes(p, 1000);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 1000; i++) {
			snprintf(node, sizeof(node), "n%u", i);
			update_node(&l, node, "a", round ? "ready" : "staging", 10 + 10 * round,
				    20);
			progress_update(p, &l, NULL);
		}
	progress_end(p, &l);
	progress_free(p);
	fclose(f);
	assert_in_range(count_lines(text), 5, 12);
	assert_non_null(strstr(text, "a: ready on 1000 nodes, the slowest was n0, in 0:42\n"));
	assert_non_null(strstr(text, "slowest n"));
	free(text);
}

static void test_the_line_of_a_held_job_of_many_nodes(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char text[512], node[16];

	for (unsigned i = 0; i < 10; i++) {
		snprintf(node, sizeof(node), "n%u", i);
		update_node(&l, node, "a", i < 9 ? "ready" : "staging", 10, 20);
	}
	progress_hold_text(&l, text, sizeof(text));
	assert_string_equal(text, "a 95 % 2.1 GB/s ETA 1:10, 9 ready, 1 staging, slowest n9");
}

static void test_the_bar_is_one_line_and_goes_away(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_BAR), 0);
	update(&l, "\033[2Jx", "staging", 50, 100); /* a name that the daemon would not let pass */
	progress_update(p, &l, NULL);
	progress_free(p);
	fclose(f);
	assert_int_equal(count_lines(text), 0);
	assert_null(strstr(text, "\033[2J"));
	assert_non_null(strstr(text, "##########.........."));
	assert_string_equal(text + strlen(text) - 4, "\r\033[K");
	free(text);
}

static void test_no_style_no_output(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct progress *p;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(progress_new(&p, f, PROGRESS_NONE), 0);
	update(&l, "a", "staging", 50, 100);
	progress_update(p, &l, NULL);
	progress_set(p, "pack", 50, 50);
	progress_free(p);
	fclose(f);
	assert_string_equal(text, "");
	free(text);
}

static void test_the_line_of_a_held_job(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char text[512];

	progress_hold_text(&l, text, sizeof(text));
	assert_string_equal(text, "");
	update(&l, "imagenet", "staging", 41, 100);
	progress_hold_text(&l, text, sizeof(text));
	assert_string_equal(text, "imagenet 41 % 2.1 GB/s ETA 1:10 (n3)");
	update(&l, "val", "staging", 50, 100);
	progress_hold_text(&l, text, sizeof(text));
	assert_string_equal(text, "imagenet 41 % 2.1 GB/s ETA 1:10 (n3) and 1 more not ready");
	update(&l, "imagenet", "ready", 100, 100);
	update(&l, "val", "failed", 50, 100);
	progress_hold_text(&l, text, sizeof(text));
	assert_string_equal(text, "");
}

static void test_rates_are_decimal(void **state)
{
	static const struct {
		uint64_t rate;
		const char *text;
	} cases[] = {
		{ 0, "0 B/s" },
		{ 999, "999 B/s" },
		{ 1000, "1.0 kB/s" },
		{ 2100000000, "2.1 GB/s" },
		{ 123456789, "123 MB/s" },
		{ 99960, "100 kB/s" },
		{ 999999, "1.0 MB/s" },
	};
	char buf[OUTPUT_RATE_TEXT];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(rate_to_string(cases[i].rate, buf), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_line_every_ten_per_cent_elsewhere),
		cmocka_unit_test(test_what_a_daemon_calls_things_does_not_act_on_a_terminal),
		cmocka_unit_test(test_several_datasets_have_lines_of_their_own),
		cmocka_unit_test(test_the_bar_counts_what_is_ready),
		cmocka_unit_test(test_each_dataset_of_each_node_has_a_line),
		cmocka_unit_test(test_many_nodes_have_one_line_a_dataset),
		cmocka_unit_test(test_the_line_of_a_held_job_of_many_nodes),
		cmocka_unit_test(test_the_bar_is_one_line_and_goes_away),
		cmocka_unit_test(test_no_style_no_output),
		cmocka_unit_test(test_the_line_of_a_held_job),
		cmocka_unit_test(test_rates_are_decimal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
