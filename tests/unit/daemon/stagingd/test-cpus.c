#include "tests/unit/unit.h"

#include "common/slurm/job-cgroup.h"

static void test_cpu_lists(void **state)
{
	static const struct {
		const char *text;
		int n; /* -1: refused */
	} cases[] = {
		{ "0\n", 1 }, { "0-3,8\n", 5 }, { "1023", 1 },	{ "0-1023", 1024 },
		{ "", -1 },   { "\n", -1 },	{ "1024", -1 }, { "3-1", -1 },
		{ "a", -1 },  { "0;1", -1 },	{ "0-", -1 },
	};
	cpu_set_t set;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int r = job_cgroup_parse_cpus(cases[i].text, &set, sizeof(set));

		assert_int_equal(r == 0 ? CPU_COUNT(&set) : -1, cases[i].n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
