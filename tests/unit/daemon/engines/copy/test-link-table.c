#include "tests/unit/unit.h"

#include "daemon/engines/copy/link-table.h"

static const char *get(struct link_table *t, dev_t dev, ino_t ino, const char *put)
{
	struct stat st = { .st_dev = dev, .st_ino = ino };
	const char *first;

	first = link_table_find_or_lock(t, &st);
	if (!first)
		link_table_unlock_and_add(t, &st, put);
	return first;
}

static void test_later_links_find_the_first(void **state)
{
	struct link_table *t;
	char path[32];

	assert_int_equal(link_table_new(&t), 0);
	for (ino_t i = 0; i < 50000; i++) {
		snprintf(path, sizeof(path), "d/%lu", (unsigned long)i);
		assert_null(get(t, 1, i, path));
	}
	for (ino_t i = 0; i < 50000; i++) {
		snprintf(path, sizeof(path), "d/%lu", (unsigned long)i);
		assert_string_equal(get(t, 1, i, NULL), path);
	}
	assert_null(get(t, 2, 1, "other device"));
	assert_null(get(t, 1, 50000, NULL)); /* it could not be made: */
	assert_null(get(t, 1, 50000, "again"));
	assert_string_equal(get(t, 1, 50000, NULL), "again");
	link_table_free(t);
	link_table_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_later_links_find_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
