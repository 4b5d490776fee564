#include "tests/unit/unit.h"

#include "common/util/rate-limit.h"

#define MB 1000000ULL

/* Reads of size at a rate, each waiting as it is told: the time it takes. */
static uint64_t read_all(uint64_t per_s, uint64_t size, unsigned n)
{
	uint64_t now = 1000000000;
	struct rate_limit r;

	rate_limit_init(&r, per_s);
	for (unsigned i = 0; i < n; i++)
		now += rate_limit_take(&r, size, now);
	rate_limit_deinit(&r);
	return now - 1000000000;
}

static void test_the_rate_is_kept(void **state)
{
	static const struct {
		uint64_t per_s, size;
		unsigned n;
		uint64_t us;
	} cases[] = {
		{ 0, MB, 1000, 0 },
		{ MB, MB, 10, 10000000 },
		{ 100 * MB, MB / 2, 1000, 5000000 },
		{ 1, 10, 1, 10000000 },
		{ 1ULL << 40, 4096, 100, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t us = read_all(cases[i].per_s, cases[i].size, cases[i].n);

		assert_true(us + RATE_LIMIT_BURST_US >= cases[i].us && us <= cases[i].us);
	}
}

static void test_what_was_not_read_is_not_saved_up(void **state)
{
	struct rate_limit r;

	rate_limit_init(&r, MB);
	assert_in_range(rate_limit_take(&r, MB, 3600 * MB), 900000, 1000000);
	assert_in_range(rate_limit_take(&r, MB, 7200 * MB), 900000, 1000000);
	rate_limit_deinit(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_rate_is_kept),
		cmocka_unit_test(test_what_was_not_read_is_not_saved_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
