#include "client/break-even.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/json.h"
#include "common/protocol/kv.h"
#include "common/util/cleanup.h"

#define GIB (1ULL << 30)

static struct kv *make_facts(const char *method, const char *tier, const char *plan, uint64_t total)
{
	struct kv *kv = NULL;

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "method", method);
	kv_set(kv, "tier", tier);
	kv_set(kv, "plan", plan);
	kv_set_u64(kv, "total", total);
	return kv;
}

static void test_only_what_is_read_first_is_spoken_of(void **state)
{
	static const struct {
		const char *what, *method, *tier, *plan, *source;
		uint64_t total;
		bool applies;
	} cases[] = {
		{ "copy", "copy", "shm", "copy to memory", "/p/x", GIB, true },
		{ "archive", "extract", "ssd", "extract to disk", "/p/x.tar", GIB, true },
		{ "image in memory", "mount", "shm", "copy, then mount", "/p/x.sqsh", GIB, true },
		{ "image in place", "mount", "source", "mount", "/p/x.sqsh", GIB, false },
		{ "link", "link", "source", "link", "/p/x", GIB, false },
		{ "kept", "copy", "ssd", "kept by an earlier job on ssd, 1 GiB", "/p/x", GIB,
		  false },
		{ "web", "copy", "shm", "copy to memory", "https://h/x", GIB, false },
		{ "S3", "copy", "shm", "copy to memory", "s3://b/x", GIB, false },
		{ "empty", "copy", "shm", "copy to memory", "/p/x", 0, false },
		{ "not yet known", "", "", "", "/p/x", 0, false },
	};
	const struct break_even_asked asked = { 0 };
	struct break_even w;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(kv_freep) struct kv *kv = make_facts(cases[i].method, cases[i].tier,
							       cases[i].plan, cases[i].total);

		if (break_even_init(&w, kv, cases[i].source, &asked, 0) != cases[i].applies)
			fail_msg("%s", cases[i].what);
	}
}

static void test_epochs(void **state)
{
	static const struct {
		const char *what;
		uint64_t rate, epoch_ms, nodes, max_rate, elapsed_ms; /* of 60 GiB */
		uint64_t epochs;
		const char *says;
	} cases[] = {
		{ "nothing is known", 0, 0, 1, 0, 0, 0,
		  "60.0 GiB in any case.\nUse --rate and --epoch" },
		{ "nothing of reading", 0, 1000, 1, 0, 0, 0, "--rate and --epoch" },
		{ "the site's rate", 0, 0, 8, GIB, 0, 2,
		  "Staging takes 1:00 for 60.0 GiB, 0.13 node-hours" },
		{ "the user's goes first", 2 * GIB, 0, 1, GIB, 90000, 2,
		  "0:30 for 60.0 GiB, 0.01 node-hours" },
		{ "measured", 0, 0, 4, GIB, 900000, 2,
		  "Staging took 15:00 for 60.0 GiB, 1.0 node-hours" },
		{ "computing nothing", 0, 0, 1, GIB, 0, 2,
		  "a job that reads its data at least twice is faster\nwith staging" },
		{ "half of it", GIB, 30000, 60, 0, 0, 3,
		  "from 3 epochs on. Each epoch saves 0.50 node-hours" },
		{ "two thirds", GIB, 40000, 1, 0, 0, 4, "from 4 epochs on" },
		{ "all but a second", GIB, 59000, 1, 0, 0, 61, "from 61 epochs on" },
		{ "as long", GIB, 60000, 1, 0, 0, 0,
		  "Computing an epoch takes longer than reading" },
		{ "longer", GIB, 61000, 1, 0, 0, 0, "saves no time" },
		{ "slow", 1, UINT64_MAX, UINT64_MAX, 0, 0, 0, "saves no time" },
		{ "slow, on many nodes", 1, 1000, UINT64_MAX, 0, 0, 2, "from 2 epochs on" },
		{ "very fast", UINT64_MAX, 0, 1, 0, 0, 0, "--rate and --epoch" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(kv_freep) struct kv *kv = make_facts("copy", "shm", "copy to memory",
							       60 * GIB);
		const struct break_even_asked asked = { cases[i].rate, cases[i].epoch_ms,
							cases[i].nodes };
		char text[1024];
		struct break_even w;

		if (cases[i].elapsed_ms) {
			kv_set(kv, "state", "ready");
			kv_set_u64(kv, "elapsed", cases[i].elapsed_ms);
		}
		assert_true(break_even_init(&w, kv, "/p/x", &asked, cases[i].max_rate));
		break_even_get_text(&w, text, sizeof(text));
		if (break_even_get_epochs(&w) != cases[i].epochs || !strstr(text, cases[i].says))
			fail_msg("%s: %llu %s", cases[i].what,
				 (unsigned long long)break_even_get_epochs(&w), text);
	}
}

/* With so many epochs staging is faster, with one less it is not. */
static void test_the_number_is_where_the_lines_cross(void **state)
{
	for (uint64_t t = 1; t < 60; t++)
		for (uint64_t c = 0; c < 70; c++) {
			const struct break_even w = {
				.known = BREAK_EVEN_RATE, .read_ms = t, .epoch_ms = c, .nodes = 1
			};
			uint64_t n = break_even_get_epochs(&w);

			for (uint64_t e = 1; e < 100; e++)
				assert_int_equal(t + e * c<e *(t > c ? t : c), n> 0 && e >= n);
		}
}

/* What was not staged to its end took no time that would be known. */
static void test_what_is_not_ready_is_not_measured(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = make_facts("copy", "shm", "copy to memory", GIB);
	const struct break_even_asked asked = { 0 };
	struct break_even w;

	kv_set(kv, "state", "staging");
	kv_set_u64(kv, "elapsed", 5000);
	assert_true(break_even_init(&w, kv, "/p/x", &asked, 0));
	assert_int_equal(w.known, BREAK_EVEN_NOTHING);
}

static void test_json(void **state)
{
	const struct break_even w = { .known = BREAK_EVEN_MEASURED,
				      .bytes = GIB,
				      .read_ms = 3000,
				      .epoch_ms = 1000,
				      .nodes = 2 };
	const struct break_even none = { .bytes = 5, .nodes = 1 };
	_cleanup_(freep) char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct json j;

	json_init(&j, f);
	json_open_array(&j, NULL);
	json_open_object(&j, NULL);
	break_even_to_json(&w, &j);
	json_close_object(&j);
	json_open_object(&j, NULL);
	break_even_to_json(&none, &j);
	json_close_object(&j);
	json_close_array(&j);
	fclose(f);
	assert_string_equal(text, "[{\"worth\":{\"by\":\"measured\",\"bytes\":1073741824,\"nodes\":"
				  "2,\"read_ms\":3000,\"epoch_ms\":1000,"
				  "\"from_epochs\":2,\"wait_node_ms\":6000}},"
				  "{\"worth\":{\"by\":null,\"bytes\":5,\"nodes\":1,\"read_ms\":"
				  "null,\"epoch_ms\":null,"
				  "\"from_epochs\":null,\"wait_node_ms\":null}}]");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_what_is_read_first_is_spoken_of),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_the_number_is_where_the_lines_cross),
		cmocka_unit_test(test_what_is_not_ready_is_not_measured),
		cmocka_unit_test(test_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
