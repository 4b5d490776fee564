#include "tests/unit/unit.h"

#include <errno.h>

static void test_context_goes_in_front(void **state)
{
	struct error err = ERROR_INIT;

	assert_int_equal(error_errno(&err, ENOSPC, "write %s", "train/0.tar"), -ENOSPC);
	error_prefix(&err, "dataset %s", "imagenet");
	assert_string_equal(err.text,
			    "dataset imagenet: write train/0.tar: No space left on device");
	assert_int_equal(error_to_exit(&err), STAGE_EXIT_NO_SPACE);
	assert_int_equal(error_exit(&err, STAGE_EXIT_USAGE, EINVAL, "item"), -EINVAL);
	error_prefix(&err, "x");
	assert_int_equal(error_to_exit(&err), STAGE_EXIT_USAGE);
}

static void test_no_place_is_fine(void **state)
{
	assert_int_equal(error_set(NULL, EIO, "x"), -EIO);
	error_prefix(NULL, "y");
}

static void test_long_and_dirty_texts(void **state)
{
	struct error err = ERROR_INIT;
	char big[4000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	error_set(&err, EIO, "%s", big);
	assert_int_equal(strlen(err.text), ERROR_MAX_SIZE - 1);
	assert_string_equal(err.text + ERROR_MAX_SIZE - 4, "...");
	error_set(&err, EIO, "a\x1b[2Jb");
	assert_string_equal(err.text, "a\\x1b[2Jb");
}

static void test_a_hint_stands_at_the_end_once(void **state)
{
	struct error err = ERROR_INIT;
	char big[4000];

	assert_int_equal(
		error_set_hint(&err, error_exit(&err, STAGE_EXIT_NO_SPACE, EDQUOT, "takes 3 GiB"),
			       "raise max=%s", "4G\n"),
		-EDQUOT);
	error_prefix(&err, "/p/x");
	error_set_hint(&err, err.code, "do something else");
	assert_string_equal(err.text, "/p/x: takes 3 GiB; raise max=4G\\x0a");
	assert_int_equal(err.exit_code, STAGE_EXIT_NO_SPACE);
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	error_set(&err, EIO, "%s", big);
	error_set_hint(&err, err.code, "shorten it");
	assert_int_equal(strlen(err.text), ERROR_MAX_SIZE - 1);
	assert_non_null(strstr(err.text, "xxx...; shorten it"));
	assert_int_equal(error_set_hint(NULL, -EIO, "x"), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_context_goes_in_front),
		cmocka_unit_test(test_no_place_is_fine),
		cmocka_unit_test(test_long_and_dirty_texts),
		cmocka_unit_test(test_a_hint_stands_at_the_end_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
