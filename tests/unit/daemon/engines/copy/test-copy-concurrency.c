#include "tests/unit/unit.h"

#include "daemon/engines/copy/copy-concurrency.h"

#define SLOW_US 150

/* n samples of us; how many at once there are then. */
static size_t feed(struct copy_concurrency *p, unsigned n, uint64_t us)
{
	while (n-- > 0)
		copy_concurrency_note(p, us, 1);
	return copy_concurrency_get(p);
}

static void test_how_many_at_once(void **state)
{
	static const struct {
		const char *what;
		size_t start, max, expect;
		uint64_t us[6]; /* of 200 samples each; 0: the end */
	} cases[] = {
		{ "answers at once", 2, 0, 2, { 3, 3, 3, 3, 3, 3 } },
		{ "slow", 2, 0, 64, { 700, 700, 700, 700, 700, 700 } },
		{ "slow and capped", 2, 5, 5, { 700, 700, 700, 700, 700, 700 } },
		{ "one alone", 2, 1, 1, { 700, 700, 700, 700, 700, 700 } },
		{ "a cap out of reach", 2, 500, 64, { 700, 700, 700, 700, 700, 700 } },
		{ "slow from some time on", 2, 0, 64, { 3, 3, 700, 700, 700, 700 } },
		{ "more than there may be", 100, 0, 64, { 3 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct copy_concurrency p;

		copy_concurrency_init(&p, cases[i].start, cases[i].max, SLOW_US);
		for (size_t k = 0; k < 6 && cases[i].us[k]; k++)
			feed(&p, 200, cases[i].us[k]);
		if (copy_concurrency_get(&p) != cases[i].expect)
			fail_msg("%s: %zu", cases[i].what, copy_concurrency_get(&p));
		copy_concurrency_deinit(&p);
	}
}

static void test_a_server_at_its_limit_gets_no_more(void **state)
{
	struct copy_concurrency p;
	size_t n;

	copy_concurrency_init(&p, 2, 0, SLOW_US);
	n = feed(&p, 8, 700);
	assert_int_equal(n, 8);
	/* four times as many, and each takes four times as long */
	assert_int_equal(feed(&p, 1024, 2800), n);
	/* it has time again */
	assert_int_equal(feed(&p, 32, 800), 2 * n);
	copy_concurrency_deinit(&p);
}

/* Without PACE_FIRST_SLOW the first 22 ms of a source are done by two. A range of a big file counts
 * for many, and is one all the same: its thread may have slept once. */
static void test_a_slow_source_is_known_by_its_first_operations(void **state)
{
	struct copy_concurrency p;

	copy_concurrency_init(&p, 2, 0, SLOW_US);
	assert_int_equal(feed(&p, 7, 700), 2);
	assert_int_equal(feed(&p, 1, 3), 2);
	assert_int_equal(feed(&p, 7, 700), 2);
	assert_int_equal(feed(&p, 1, 700), 8);
	copy_concurrency_deinit(&p);

	copy_concurrency_init(&p, 2, 0, SLOW_US);
	assert_int_equal(copy_concurrency_note(&p, 700, 32), 0);
	assert_int_equal(copy_concurrency_get(&p), 2);
	copy_concurrency_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_how_many_at_once),
		cmocka_unit_test(test_a_server_at_its_limit_gets_no_more),
		cmocka_unit_test(test_a_slow_source_is_known_by_its_first_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
