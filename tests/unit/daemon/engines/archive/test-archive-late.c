#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include <archive.h>

#include "daemon/engines/archive/archive-late.h"
#include "daemon/engines/archive/decode.h"

static bool is_mapped(const char *library)
{
	FILE *f = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found = found || strstr(line, library);
	fclose(f);
	return found;
}

static void test_it_is_loaded_by_who_asks(void **state)
{
	assert_false(is_mapped("libarchive"));
	assert_true(decode_is_available());
	assert_true(is_mapped("libarchive"));
	assert_true(archive_late_load());
}

static void test_its_errors_can_be_set(void **state)
{
	struct archive *a = archive_read_new();

	assert_non_null(a);
	archive_set_error(a, EIO, "%s %d", "read", 7);
	assert_int_equal(archive_errno(a), EIO);
	assert_string_equal(archive_error_string(a), "read 7");
	assert_int_equal(archive_read_free(a), ARCHIVE_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_loaded_by_who_asks),
		cmocka_unit_test(test_its_errors_can_be_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
