#include "client/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct table_column columns[] = { { "NAME", false },
					       { "SIZE", true },
					       { "PATH", false } };

static void expect(struct table *t, const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	table_print(t, f);
	fclose(f);
	assert_string_equal(text, expected);
	free(text);
}

static void test_columns_are_as_wide_as_what_is_in_them(void **state)
{
	_cleanup_(table_freep) struct table *t = NULL;

	assert_int_equal(table_new(&t, columns, 3), 0);
	assert_int_equal(table_add_row(t, (const char *[]){ "a", "148.0 GiB", "/d/a" }), 0);
	assert_int_equal(table_add_note(t, "why it failed"), 0);
	assert_int_equal(table_add_row(t, (const char *[]){ "imagenet", NULL, "" }), 0);
	expect(t, "NAME           SIZE  PATH\n"
		  "a         148.0 GiB  /d/a\n"
		  "    why it failed\n"
		  "imagenet          -  -\n");
}

static void test_utf8_counts_characters(void **state)
{
	_cleanup_(table_freep) struct table *t = NULL;

	assert_int_equal(table_new(&t, columns, 3), 0);
	assert_int_equal(table_add_row(t, (const char *[]){ "gr\xc3\xbc\xc3\x9f"
							    "e",
							    "1", "x" }),
			 0);
	expect(t, "NAME   SIZE  PATH\n"
		  "gr\xc3\xbc\xc3\x9f"
		  "e     1  x\n");
}

static void test_control_bytes_do_not_reach_the_terminal(void **state)
{
	_cleanup_(table_freep) struct table *t = NULL;

	assert_int_equal(table_new(&t, columns, 3), 0);
	assert_int_equal(table_add_row(t, (const char *[]){ "a", "1", "/\x1b]0;x\x07" }), 0);
	assert_int_equal(table_add_note(t, "\x9b"
					   "2J"),
			 0);
	expect(t, "NAME  SIZE  PATH\n"
		  "a        1  /\\x1b]0;x\\x07\n"
		  "    \\x9b2J\n");
}

static void test_no_rows_no_heads(void **state)
{
	_cleanup_(table_freep) struct table *t = NULL;

	assert_int_equal(table_new(&t, columns, 3), 0);
	expect(t, "");
	assert_true(table_new(&t, columns, TABLE_MAX_COLUMNS + 1) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns_are_as_wide_as_what_is_in_them),
		cmocka_unit_test(test_utf8_counts_characters),
		cmocka_unit_test(test_control_bytes_do_not_reach_the_terminal),
		cmocka_unit_test(test_no_rows_no_heads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
