#include "tests/unit/unit.h"

#include "common/util/fnv.h"

/* Of the examples that the authors of the hash publish */
static void test_known_values(void **state)
{
	assert_true(fnv_add_text(FNV_INIT, "") == UINT64_C(0xcbf29ce484222325));
	assert_true(fnv_add_text(FNV_INIT, "a") == UINT64_C(0xaf63dc4c8601ec8c));
	assert_true(fnv_add_text(FNV_INIT, "foobar") == UINT64_C(0x85944171f73967e8));
	assert_true(fnv_add_text(fnv_add(FNV_INIT, "foo", 3), "bar") ==
		    fnv_add_text(FNV_INIT, "foobar"));
	assert_true(fnv_add(FNV_INIT, "a", 2) != fnv_add(FNV_INIT, "a", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
