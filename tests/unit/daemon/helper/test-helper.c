#include "tests/unit/unit.h"

#include <errno.h>
#include <pwd.h>

#include "common/protocol/tier-name.h"
#include "daemon/helper/account.h"

static void test_names_in_a_tier(void **state)
{
	static const struct {
		const char *name;
		int expect;
		uint32_t job_id;
	} cases[] = {
		{ "stage-data-7", 0, 7 },
		{ "stage-data-4294967295", 0, 4294967295U },
		{ "stage-data-7.1234", 0, 7 },
		{ "stage-keep-1001", 0, 0 }, /* no job's */
		{ "stage-keep", -EINVAL, 0 },
		{ "stage-data-4294967296", -EINVAL, 0 },
		{ "stage-data-", -EINVAL, 0 },
		{ "stage-data-7.", -EINVAL, 0 },
		{ "stage-data-7.x", -EINVAL, 0 },
		{ "stage-data-7x", -EINVAL, 0 },
		{ "stage-data--7", -EINVAL, 0 },
		{ "other", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};
	uint32_t job_id;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		job_id = 0;
		assert_int_equal(tier_name_parse(cases[i].name, &job_id), cases[i].expect);
		assert_int_equal(job_id, cases[i].job_id);
	}
}

static void test_accounts(void **state)
{
	static struct helper_user a;

	user_look_up(&a, 4242424, 4343434);
	assert_int_equal(a.r, 0);
	assert_false(a.known);
	assert_int_equal(a.n_groups, 1);
	assert_int_equal(a.groups[0], 4343434);
	assert_string_equal(a.name, "4242424");
	assert_string_equal(a.home, "/");
	user_look_up(&a, 0, 0);
	assert_true(a.known);
	assert_string_equal(a.name, "root");
	assert_string_equal(a.home, getpwuid(0)->pw_dir);
}

static void test_values_of_variables(void **state)
{
	static const struct {
		const char *text, *expect;
	} cases[] = {
		{ "anna", "anna" },	  { "j\xf6rg", "j\xf6rg" }, { "a b", "a b" },
		{ "1234567", "1234567" }, { "12345678", "-" },	    { "", "-" },
		{ "a\nb", "-" },	  { "a\x7f", "-" },	    { "\x1b[2J", "-" },
	};
	char buf[8];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		user_fill_value(buf, sizeof(buf), cases[i].text, "-");
		assert_string_equal(buf, cases[i].expect);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accounts),
		cmocka_unit_test(test_values_of_variables),
		cmocka_unit_test(test_names_in_a_tier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
