#include "tests/unit/unit.h"

#include "daemon/stagingd/budget.h"

static void test_the_ledger(void **state)
{
	_cleanup_(budget_freep) struct budget *b = NULL;

	assert_int_equal(budget_new(&b), 0);
	assert_int_equal(budget_grant(b, 1, "shm", 100, 1), 0);
	assert_int_equal(budget_grant(b, 1, "shm", 50, 2), 0); /* adds up */
	assert_int_equal(budget_grant(b, 2, "ssd", 10, 3), 0);
	assert_int_equal(budget_get_reserved(b, "shm"), 150);
	assert_int_equal(budget_get_reserved(b, NULL), 160);
	assert_int_equal(budget_get_files(b), 6);

	budget_set_written(b, 1, 120);
	assert_int_equal(budget_get_unwritten(b, "shm"), 30);
	budget_set_written(b, 1, 9999); /* never more than was granted */
	assert_int_equal(budget_get_unwritten(b, "shm"), 0);

	budget_give_back(b, 1, 40);
	assert_int_equal(budget_get_reserved(b, "shm"), 110);
	assert_int_equal(budget_get_unwritten(b, "shm"), 0);
	budget_give_back(b, 3, 40); /* who has nothing */
	assert_int_equal(budget_get_reserved(b, NULL), 120);

	budget_return(b, 1);
	budget_return(b, 1);
	assert_int_equal(budget_get_reserved(b, NULL), 10);
	budget_return(b, 2);
	assert_int_equal(budget_get_reserved(b, NULL), 0);
}

static void test_the_ledger_does_not_overflow(void **state)
{
	_cleanup_(budget_freep) struct budget *b = NULL;

	assert_int_equal(budget_new(&b), 0);
	assert_int_equal(budget_grant(b, 1, "shm", UINT64_MAX - 1, UINT64_MAX), 0);
	assert_int_equal(budget_grant(b, 1, "shm", 100, 100), 0);
	assert_int_equal(budget_grant(b, 2, "shm", 100, 100), 0);
	assert_true(budget_get_reserved(b, "shm") == UINT64_MAX);
	assert_true(budget_get_files(b) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_ledger),
		cmocka_unit_test(test_the_ledger_does_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
