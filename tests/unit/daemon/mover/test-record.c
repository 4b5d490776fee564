/* What is known of the files of a copy. */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include "common/util/fnv.h"
#include "daemon/mover/record.h"

/* Calls of strcmp(), one for each path that another is compared with. */
static uint64_t n_compared;

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);

int __wrap_strcmp(const char *a, const char *b)
{
	n_compared++;
	return __real_strcmp(a, b);
}

/* Paths whose FNV-1a ends in the same bits: a table by that hash has them in one bucket. */
static void test_names_of_one_hash_are_not_compared_with_each_other(void **state)
{
	enum { N = 2000, BITS = 12 };
	static char names[N][9];
	_cleanup_(record_table_freep) struct record_table *t = NULL;
	_cleanup_(freep) char *path = NULL;
	unsigned n = 0;
	FILE *f;

	for (unsigned i = 0; n < N; i++) {
		snprintf(names[n], sizeof(names[n]), "%08x", i);
		n += (fnv_add_text(FNV_INIT, names[n]) & ((1u << BITS) - 1)) == 0;
	}
	assert_true(asprintf(&path, "%s/record", (const char *)*state) > 0);
	f = fopen(path, "we");
	assert_non_null(f);
	for (unsigned i = 0; i < N; i++)
		fprintf(f, "d 1000.0 755 %s\n", names[i]);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(record_load(&t, AT_FDCWD, path, 0, NULL), 0);
	n_compared = 0;
	for (unsigned i = 0; i < N; i++)
		assert_non_null(record_find(t, names[i]));
	assert_null(record_find(t, "other"));
	assert_in_range(n_compared, N, 10 * N);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_names_of_one_hash_are_not_compared_with_each_other, unit_scratch_setup,
			unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
