/*
 * What datasets are counted for.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

#include "daemon/stagingd/cause.h"
#include "daemon/stagingd/stage.h"
#include "daemon/stagingd/job-metrics.h"

static void test_causes(void **state)
{
	static const struct {
		enum stage_event ev;
		enum stage_exit code;
		int errnum;
		const char *word;
	} cases[] = {
		{ STAGE_EV_ERROR, STAGE_EXIT_FAILED, ENOENT, "missing" },
		{ STAGE_EV_ERROR, STAGE_EXIT_FAILED, EACCES, "denied" },
		{ STAGE_EV_ERROR, STAGE_EXIT_FAILED, ESTALE, "io" },
		{ STAGE_EV_ERROR, STAGE_EXIT_FAILED, EBADMSG, "content" },
		{ STAGE_EV_ERROR, STAGE_EXIT_FAILED, 0, "other" },
		{ STAGE_EV_ERROR, STAGE_EXIT_FAILED, 4095, "other" }, /* whatever a worker says */
		{ STAGE_EV_ERROR, STAGE_EXIT_NO_SPACE, ENOENT, "space" },
		{ STAGE_EV_ERROR, STAGE_EXIT_TIMEOUT, 0, "time" },
		{ STAGE_EV_TIMEOUT, STAGE_EXIT_TIMEOUT, 0, "time" },
		{ STAGE_EV_REFUSED, STAGE_EXIT_REFUSED, EPERM, "rules" },
		{ STAGE_EV_DIED, STAGE_EXIT_FAILED, ENOENT, "died" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(
			cause_to_string(cause_find(cases[i].ev, cases[i].code, cases[i].errnum)),
			cases[i].word);
	assert_string_equal(cause_to_string(STAGE_CAUSE_NONE), "");
}

/* Each dataset counts for one result, and a failure for one cause. */
static void test_each_counts_once(void **state)
{
	static const struct {
		enum stage_state state;
		enum stage_cause cause;
		bool was_ready;
		enum count expect, also;
	} cases[] = {
		{ STAGE_READY, 0, true, COUNT_READY, COUNT_BY_MOUNT },
		{ STAGE_RELEASED, 0, true, COUNT_READY, COUNT_BY_MOUNT },
		{ STAGE_RELEASED, 0, false, COUNT_CANCELLED, COUNT_CANCELLED },
		{ STAGE_RELEASED, STAGE_CAUSE_IO, false, COUNT_FAILED, COUNT_CAUSE_IO },
		{ STAGE_FAILED, STAGE_CAUSE_RULES, false, COUNT_FAILED, COUNT_CAUSE_RULES },
		{ STAGE_FAILED, STAGE_CAUSE_DIED, true, COUNT_FAILED, COUNT_CAUSE_DIED },
		{ STAGE_FAILED, STAGE_CAUSE_OTHER, true, COUNT_FAILED, COUNT_CAUSE_OTHER },
		{ STAGE_FAILED, 0, true, COUNT_FAILED, COUNT_CAUSE_OTHER }, /* not taken away */
	};
	uint64_t counts[COUNT_N], sum, things;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dataset d = { 0 };
		struct stage s = { .dataset = &d,
				   .state = cases[i].state,
				   .cause = cases[i].cause,
				   .was_ready = cases[i].was_ready,
				   .method = "mount" };

		memset(counts, 0xff, sizeof(counts));
		job_metrics_count(&s, counts);
		sum = counts[COUNT_READY] + counts[COUNT_FAILED] + counts[COUNT_CANCELLED];
		things = 0;
		for (size_t k = 0; k < COUNT_N; k++)
			things += counts[k];
		assert_int_equal(sum, 1);
		assert_int_equal(counts[cases[i].expect], 1);
		assert_int_equal(counts[cases[i].also], 1);
		assert_int_equal(things, cases[i].expect == cases[i].also ? 1 : 2);
	}
}

/* An image of 100 GB that is mounted was not read. */
static void test_what_stays_where_it_is_was_not_read(void **state)
{
	static const struct {
		const char *method;
		bool hydrate;
		enum count count;
		uint64_t expect;
	} cases[] = {
		{ "mount", false, COUNT_BYTES_MOUNT, 10 },
		{ "mount", true, COUNT_BYTES_MOUNT, 1000 }, /* it is copied behind its readers */
		{ "link", false, COUNT_BYTES_LINK, 10 },
		{ "copy", false, COUNT_BYTES_COPY, 1000 },
		{ "extract", false, COUNT_BYTES_EXTRACT, 1000 },
	};
	uint64_t counts[COUNT_N];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dataset d = { .hydrate = cases[i].hydrate };
		struct stage s = { .dataset = &d,
				   .state = STAGE_READY,
				   .was_ready = true,
				   .bytes = 1000,
				   .moved = 10 };

		strcpy(s.method, cases[i].method);
		job_metrics_count(&s, counts);
		assert_int_equal(counts[cases[i].count], cases[i].expect);
	}
}

static void test_amounts_are_the_methods(void **state)
{
	struct dataset d = { 0 };
	struct stage s = { .dataset = &d,
			   .state = STAGE_READY,
			   .method = "extract",
			   .bytes = 1000,
			   .files = 7,
			   .start_ms = 100,
			   .end_ms = 350,
			   .n_mounts = 2 };
	uint64_t counts[COUNT_N];

	job_metrics_count(&s, counts);
	assert_int_equal(counts[COUNT_BYTES_EXTRACT], 1000);
	assert_int_equal(counts[COUNT_MS_EXTRACT], 250);
	assert_int_equal(counts[COUNT_FILES], 7);
	assert_int_equal(counts[COUNT_MOUNTS], 2);
	assert_int_equal(
		counts[COUNT_BYTES_COPY] + counts[COUNT_BYTES_MOUNT] + counts[COUNT_BYTES_LINK], 0);
	strcpy(s.method, "what a worker made up");
	job_metrics_count(&s, counts);
	assert_int_equal(counts[COUNT_READY], 1);
	assert_int_equal(counts[COUNT_BYTES_EXTRACT], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_each_counts_once),
		cmocka_unit_test(test_what_stays_where_it_is_was_not_read),
		cmocka_unit_test(test_amounts_are_the_methods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
