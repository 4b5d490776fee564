#include "client/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/error.h"

/* "name=a state=staging …" */
static struct kv *message(const char *fields)
{
	struct kv *kv;
	char *copy = strdup(fields), *save = NULL;

	assert_int_equal(kv_new(&kv), 0);
	for (char *f = strtok_r(copy, " ", &save); f; f = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(f, '=');

		*eq = '\0';
		kv_set(kv, f, eq + 1);
	}
	free(copy);
	return kv;
}

static void update(struct snapshot_list *l, const char *fields)
{
	struct kv *kv = message(fields);

	assert_int_equal(snapshot_list_update(l, &kv, NULL), 0);
	assert_null(kv);
}

static void test_the_last_message_counts(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };

	update(&l, "name=a state=queued");
	update(&l, "name=b state=queued");
	update(&l, "name=a state=staging bytes=5 total=10");
	update(&l, "name=a state=ready node=n2");
	assert_int_equal(l.n_items, 3);
	assert_int_equal(l.items[0].state, STAGE_STAGING);
	assert_int_equal(l.items[0].bytes, 5);
	assert_string_equal(l.items[2].node, "n2");
}

/* Of many items, each is found again: after others were added, sorted, and replaced. */
static void test_each_of_many_is_found_again(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	struct kv *twin = message("name=d1 state=queued node=n1 bytes=99");
	char text[64];

	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < 2000; i++) {
			snprintf(text, sizeof(text), "name=d%u state=staging node=n%u bytes=%u",
				 i % 7, i / 7, round);
			update(&l, text);
		}
		assert_int_equal(l.n_items, 2000);
		for (unsigned i = 0; i < 2000; i++)
			assert_int_equal(l.items[i].bytes, round);
		snapshot_list_sort(&l);
		assert_string_equal(l.items[7].node, "n1");
		assert_string_equal(l.items[8].name, "d1");
	}
	assert_int_equal(snapshot_list_add(&l, &twin), 0); /* does not look for others */
	update(&l, "name=d1 state=ready node=n1 bytes=4");
	assert_int_equal(l.n_items, 2001);
	assert_int_equal(l.items[8].bytes, 4);
	assert_int_equal(l.items[2000].bytes, 99);
}

static void test_strange_messages_stay_the_callers(void **state)
{
	static const char *const cases[] = { "state=ready", "name=a", "name=a state=done" };
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kv *kv = message(cases[i]);

		assert_true(snapshot_list_update(&l, &kv, NULL) < 0);
		assert_non_null(kv);
		kv_free(kv);
	}
	assert_int_equal(l.n_items, 0);
}

static void test_percent_is_100_only_when_ready(void **state)
{
	static const struct {
		const char *fields;
		int percent;
	} cases[] = {
		{ "name=a state=staging bytes=0 total=10", 0 },
		{ "name=a state=staging bytes=5 total=10", 50 },
		{ "name=a state=staging bytes=10 total=10", 99 },
		{ "name=a state=staging bytes=11 total=10", 99 },
		{ "name=a state=staging bytes=5", -1 },
		{ "name=a state=staging bytes=9223372036854775807 total=18446744073709551615", 49 },
		{ "name=a state=ready", 100 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kv *kv = message(cases[i].fields);
		struct snapshot s;

		assert_int_equal(snapshot_from_kv(&s, &kv), 0);
		assert_int_equal(snapshot_get_percent(&s), cases[i].percent);
		snapshot_deinit(&s);
	}
}

static void test_exit_status_of_a_list(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };

	assert_int_equal(snapshot_list_get_exit(&l), STAGE_EXIT_OK);
	update(&l, "name=r state=released");
	assert_int_equal(snapshot_list_get_exit(&l), STAGE_EXIT_NOT_READY);
	update(&l, "name=a state=ready");
	assert_int_equal(snapshot_list_get_exit(&l), STAGE_EXIT_OK);
	update(&l, "name=b state=staging");
	assert_int_equal(snapshot_list_get_exit(&l), STAGE_EXIT_NOT_READY);
	update(&l, "name=c state=failed code=7");
	assert_int_equal(snapshot_list_get_exit(&l), STAGE_EXIT_NO_SPACE);
}

static void test_the_slowest_is_the_one_that_holds_the_others_up(void **state)
{
	_cleanup_(snapshot_list_deinit) struct snapshot_list l = { 0 };
	size_t n;

	assert_null(snapshot_list_get_slowest(&l, &n));
	update(&l, "name=a state=ready eta=999999");
	assert_null(snapshot_list_get_slowest(&l, &n));
	update(&l, "name=b state=staging eta=1000 bytes=1 total=10");
	update(&l, "name=c state=staging eta=5000 bytes=9 total=10");
	update(&l, "name=d state=failed");
	assert_string_equal(snapshot_list_get_slowest(&l, &n)->name, "c");
	assert_int_equal(n, 2);
	update(&l, "name=e state=staging eta=5000 bytes=1 total=10");
	assert_string_equal(snapshot_list_get_slowest(&l, NULL)->name, "e");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_message_counts),
		cmocka_unit_test(test_each_of_many_is_found_again),
		cmocka_unit_test(test_strange_messages_stay_the_callers),
		cmocka_unit_test(test_percent_is_100_only_when_ready),
		cmocka_unit_test(test_exit_status_of_a_list),
		cmocka_unit_test(test_the_slowest_is_the_one_that_holds_the_others_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
