#include "client/job-time-left.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/util/cleanup.h"

/* clang-format off */
static const struct { const char *text; int r; uint64_t seconds; } cases[] = {
	{ "0:45", 0, 45 },
	{ "59:59", 0, 3599 },
	{ "1:00:00", 0, 3600 },
	{ "23:59:59", 0, 86399 },
	{ "2-01:00:07", 0, 2 * 86400 + 3607 },
	{ "", -EINVAL, 0 },
	{ "45", -EINVAL, 0 },
	{ ":45", -EINVAL, 0 },
	{ "1:", -EINVAL, 0 },
	{ "1-0:45", -EINVAL, 0 },       /* days without hours */
	{ "1:2:3:4", -EINVAL, 0 },
	{ "1:45 ", -EINVAL, 0 },
	{ "-1:45", -EINVAL, 0 },
	{ "INVALID", -EINVAL, 0 },      /* a job beyond its limit */
	{ "UNLIMITED", -EINVAL, 0 },
	{ "NOT_SET", -EINVAL, 0 },
};
/* clang-format on */

static void test_times_as_squeue_prints_them(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t seconds = 0;

		if (job_time_left_from_string(cases[i].text, &seconds) != cases[i].r ||
		    seconds != cases[i].seconds)
			fail_msg("\"%s\": %llu", cases[i].text, (unsigned long long)seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times_as_squeue_prints_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
