#include "client/name-table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/util/cleanup.h"

/* Seen failing without a new table when it grows. */
static void test_equal_texts_have_one_number(void **state)
{
	enum { N = 5000 };
	_cleanup_(name_table_deinit) struct name_table names = { 0 };
	static char texts[2 * N][16];

	assert_int_equal(name_table_find(&names, "n0"), NAME_TABLE_NONE);
	for (size_t i = 0; i < 2 * N; i++) {
		snprintf(texts[i], sizeof(texts[i]), "n%zu", i % N);
		assert_int_equal(name_table_find(&names, texts[i]),
				 i < N ? NAME_TABLE_NONE : i - N);
		assert_int_equal(name_table_add(&names, texts[i]), i % N);
		assert_int_equal(name_table_find(&names, texts[i]), i % N);
	}
	assert_int_equal(names.n, N);
	assert_int_equal(name_table_add(&names, ""), N);
	for (size_t i = 0; i < N; i++)
		assert_ptr_equal(names.texts[i], texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_texts_have_one_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
