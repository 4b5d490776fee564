#include "client/summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/snapshot.h"
#include "common/util/cleanup.h"

static void update(struct snapshot_list *l, const char *node, const char *state, uint64_t bytes,
		   uint64_t ms, const char *reason)
{
	struct kv *kv;

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "name", "a");
	kv_set(kv, "state", state);
	kv_set(kv, "node", node);
	kv_set(kv, "reason", reason);
	kv_set_u64(kv, "bytes", bytes);
	kv_set_u64(kv, "total", 100);
	kv_set_u64(kv, "eta", !strcmp(state, "staging") ? ms : 0);
	kv_set_u64(kv, "elapsed", ms);
	assert_int_equal(snapshot_list_update(l, &kv, NULL), 0);
}

static char *print(const struct snapshot_list *l)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(summary_print(l, f), 0);
	fclose(f);
	return text;
}

static void test_above_eight_nodes(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char node[16];

	for (unsigned i = 0; i < 9; i++) {
		assert_false(summary_is_wanted(&l));
		snprintf(node, sizeof(node), "n%u", i);
		update(&l, node, "ready", 100, 1, "");
	}
	assert_true(summary_is_wanted(&l));
}

static void test_states_sums_and_the_slowest(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	char text[SUMMARY_STATES_TEXT];
	struct summary s;

	update(&l, "n1", "ready", 100, 2000, "");
	update(&l, "n2", "ready", 100, 1000, "");
	update(&l, "n3", "failed", 7, 1, "no space");
	summary_of(&s, &l, "a");
	assert_string_equal(s.slowest->node, "n1");
	assert_string_equal(s.fastest->node, "n2");
	assert_string_equal(summary_get_states(&s, text), "1 failed, 2 ready");
	assert_int_equal(summary_get_percent(&s), 99);
	update(&l, "n4", "staging", 50, 5000, "");
	update(&l, "n5", "staging", 10, 9000, "");
	update(&l, "n6", "queued", 0, 0, "");
	summary_of(&s, &l, "a");
	assert_string_equal(s.slowest->node, "n5");
	assert_int_equal(s.eta_ms, 9000);
	assert_int_equal(summary_get_percent(&s), 52);
}

/* Seen failing with a line per failed node. */
static void test_output_is_bounded_for_1000_nodes(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	_cleanup_(freep) char *text = NULL;
	char node[16], reason[32];
	size_t n = 0;

	for (unsigned i = 0; i < 1000; i++) {
		snprintf(node, sizeof(node), "n%u", i);
		snprintf(reason, sizeof(reason), i % 2 ? "no space" : "odd \033 %u", i);
		update(&l, node, "failed", 0, 0, reason);
	}
	text = print(&l);
	for (const char *c = text; *c; c++)
		n += *c == '\n';
	assert_in_range(n, 3, 16);
	assert_true(strlen(text) < 4096);
	assert_null(strchr(text, '\033'));
	assert_non_null(strstr(text, "a failed on 500 nodes (n1, n3, n5, n7, n9, n11, n13, n15 and "
				     "492 more): no space\n"));
	assert_non_null(strstr(text, "There are more reasons; --nodes shows all.\n"));
}

/* When each item was compared with all items before it, the order of datasets took minutes: see
 * test_a_thousand_nodes_with_all_their_datasets of stagectl-test. */
static void test_the_order_of_the_answers_does_not_matter(void **state)
{
	enum { N_NODES = 1000, N_NAMES = 64 };

	for (int by_name = 0; by_name < 2; by_name++) {
		_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
		_cleanup_(freep) struct summary *all = NULL;
		_cleanup_(freep) char *text = NULL;
		const clock_t begin = clock();
		size_t n;

		for (unsigned i = 0; i < N_NODES * N_NAMES; i++) {
			const unsigned node = by_name ? i % N_NODES : i / N_NAMES;
			const unsigned name = by_name ? i / N_NODES : i % N_NAMES;
			char node_text[16], name_text[16];
			struct kv *kv;

			snprintf(node_text, sizeof(node_text), "n%u", node);
			snprintf(name_text, sizeof(name_text), "d%u", name);
			assert_int_equal(kv_new(&kv), 0);
			kv_set(kv, "name", name_text);
			kv_set(kv, "node", node_text);
			kv_set(kv, "state", name > 50 ? "failed" : "ready");
			kv_set(kv, "reason", name > 50 ? "no space" : "");
			kv_set_u64(kv, "total", name);
			assert_int_equal(snapshot_list_update(&l, &kv, NULL), 0);
		}
		assert_int_equal(summary_of_all(&all, &n, &l), 0);
		assert_int_equal(n, N_NAMES);
		for (unsigned name = 0; name < N_NAMES; name++) {
			assert_int_equal(atoi(all[name].name + 1), name);
			assert_int_equal(all[name].n_nodes, N_NODES);
			assert_int_equal(all[name].total, name > 50 ? 0 : N_NODES * name);
		}
		for (int i = 0; i < 20; i++) {
			free(text);
			text = print(&l);
		}
		assert_non_null(strstr(text, "d51 failed on 1000 nodes (n0, n1, "));
		assert_true(clock() - begin < 20 * CLOCKS_PER_SEC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_above_eight_nodes),
		cmocka_unit_test(test_states_sums_and_the_slowest),
		cmocka_unit_test(test_output_is_bounded_for_1000_nodes),
		cmocka_unit_test(test_the_order_of_the_answers_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
