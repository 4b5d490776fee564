/*
 * What files take where a page of memory is 64 KiB: common/util/page.h, and who charges by it. Red
 * where 4096 is written in place of it.
 */
#include "tests/unit/unit.h"

#include <sys/auxv.h>
#include <sys/stat.h>

#include "common/util/page.h"
#include "daemon/engines/copy/copy-file.h"

#define KIB 1024ULL

static long page_size;

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
	return page_size && name == _SC_PAGESIZE ? page_size : __real_sysconf(name);
}

static int set_up(void **state)
{
	page_size = 64 * KIB;
	return 0;
}

static void test_bytes_are_rounded_to_whole_pages(void **state)
{
	static const struct {
		uint64_t n, rounded;
	} cases[] = {
		{ 0, 0 },
		{ 1, 64 * KIB },
		{ 4 * KIB, 64 * KIB },
		{ 64 * KIB, 64 * KIB },
		{ 64 * KIB + 1, 128 * KIB },
		{ UINT64_MAX - 1, UINT64_MAX - 1 },
		{ UINT64_MAX, UINT64_MAX },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(page_round_up(cases[i].n), cases[i].rounded);
	page_size = 0;
	assert_int_equal(page_get_size(), getauxval(AT_PAGESZ));
}

static void test_a_small_file_is_charged_as_one_page(void **state)
{
	const struct stat st = { .st_size = 100, .st_blocks = 8 };

	assert_int_equal(copy_file_charge(&st), 64 * KIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_bytes_are_rounded_to_whole_pages, set_up),
		cmocka_unit_test_setup(test_a_small_file_is_charged_as_one_page, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
