#include "tests/unit/unit.h"

#include <errno.h>

#include "daemon/stagingd/nodelist.h"

/* clang-format off */
static const struct { const char *list, *node; int r; uint32_t index, n; } cases[] = {
	{ "n1", "n1", 0, 0, 1 },
	{ "n[1-3]", "n2", 0, 1, 3 },
	{ "n[1-3,7],m", "n7", 0, 3, 5 },
	{ "n[1-3,7],m", "m", 0, 4, 5 },
	{ "n[007-012]", "n010", 0, 3, 6 },
	{ "n[007-012]", "n10", -ENOENT, 0, 0 },     /* the zeros are part of the name */
	{ "n[8-11]", "n10", 0, 2, 4 },
	{ "r[0-1]c[0-3]", "r1c2", 0, 6, 8 },        /* the last bracket runs fastest */
	{ "r[0-1]c[0-3]-ib,x", "r0c3-ib", 0, 3, 9 },
	{ "b,a", "a", 0, 1, 2 },                    /* in Slurm's order, not sorted */
	{ "n[1-3]", "n4", -ENOENT, 0, 0 },
	{ "", "n1", -ENOENT, 0, 0 },
	{ "n[1-", "n1", -EINVAL, 0, 0 },
	{ "n[3-1]", "n1", -EINVAL, 0, 0 },
	{ "n[a]", "na", -EINVAL, 0, 0 },
	{ "n[]", "n", -EINVAL, 0, 0 },
	{ "n[1,]", "n1", -EINVAL, 0, 0 },
	{ ",n1", "n1", -EINVAL, 0, 0 },
	{ "n[1-4000000000]", "n1", -EINVAL, 0, 0 }, /* no list of ours */
	{ "n[1-99999]x[1-99999]", "n1x1", -EINVAL, 0, 0 },
	{ "n[99999999999]", "n1", -EINVAL, 0, 0 },
};
/* clang-format on */

static void test_place_in_the_list(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t index = 0, n = 0;
		int r = nodelist_find(cases[i].list, cases[i].node, &index, &n);

		if (r != cases[i].r || index != cases[i].index || n != cases[i].n)
			fail_msg("%s in %s: %d, %u of %u", cases[i].node, cases[i].list, r, index,
				 n);
	}
}

static void test_a_name_that_is_too_long(void **state)
{
	char list[400];
	uint32_t index, n;

	memset(list, 'x', sizeof(list) - 1);
	list[sizeof(list) - 1] = '\0';
	assert_int_equal(nodelist_find(list, "x", &index, &n), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place_in_the_list),
		cmocka_unit_test(test_a_name_that_is_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
