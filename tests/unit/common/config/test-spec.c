#include "tests/unit/unit.h"

#include <errno.h>

#include "common/config/spec.h"
#include "common/dataset/dataset.h"

#define HASH "0123456789abcdef"

static void test_spec_reads_back_the_same(void **state)
{
	static const char *const values[] = { "none", "/p/a",
					      "x=/p/a:shm:verify=sha256:0,https://h:1/b", "" };

	for (int wait = CONF_WAIT_SCRIPT; wait <= CONF_WAIT_NO; wait++)
		for (size_t i = 0; i < 4 * ARRAY_SIZE(values); i++) {
			const char *value = values[i / 4], *gres = i & 2 ? "nvme+gpu" : "";
			struct spec spec = { (enum conf_wait)wait, i % 2, "", HASH, (char *)value },
				    again;
			_cleanup_(freep) char *text = NULL;

			strcpy(spec.gres, gres);
			assert_int_equal(spec_to_string(&spec, &text), 0);
			assert_int_equal(spec_from_string(&again, text, NULL), 0);
			assert_int_equal(again.wait, wait);
			assert_int_equal(again.array, i % 2);
			assert_string_equal(again.gres, gres);
			assert_string_equal(again.conf_hash, HASH);
			assert_string_equal(again.value, value);
			spec_deinit(&again);
			spec_deinit(&again); /* twice is fine */
		}
}

static void test_text_is_as_documented(void **state)
{
	struct spec spec = { CONF_WAIT_TASKS, false, "", HASH, (char *)"/p/a" };
	_cleanup_(freep) char *text = NULL, *array = NULL, *gres = NULL;

	assert_int_equal(spec_to_string(&spec, &text), 0);
	assert_string_equal(text, "1:tasks:" HASH ":/p/a");
	spec.array = true;
	assert_int_equal(spec_to_string(&spec, &array), 0);
	assert_string_equal(array, "1:tasks,array:" HASH ":/p/a");
	strcpy(spec.gres, "nvme+gpu");
	assert_int_equal(spec_to_string(&spec, &gres), 0);
	assert_string_equal(gres, "1:tasks,array,gres=nvme+gpu:" HASH ":/p/a");
}

static void test_forged_texts_are_refused(void **state)
{
	/* clang-format off */
	static const struct { const char *text, *word; } cases[] = {
		{ "", "version" },
		{ "1", "version" },
		{ "2:script:" HASH ":/p/a", "version" },
		{ "11:script:" HASH ":/p/a", "version" },
		{ ":script:" HASH ":/p/a", "version" },
		{ "1:", "damaged" },
		{ "1:script", "damaged" },
		{ "1:scrip:" HASH ":/p/a", "damaged" },
		{ "1:scripts:" HASH ":/p/a", "damaged" },
		{ "1::" HASH ":/p/a", "damaged" },
		{ "1:,array:" HASH ":/p/a", "damaged" },
		{ "1:array:" HASH ":/p/a", "damaged" },
		{ "1:no,arra:" HASH ":/p/a", "damaged" },
		{ "1:no,array,array:" HASH ":/p/a", "damaged" },
		{ "1:no,array2:" HASH ":/p/a", "damaged" },
		{ "1:no,gres=:" HASH ":/p/a", "damaged" },
		{ "1:no,gres=a,array:" HASH ":/p/a", "damaged" },
		{ "1:no,gres=a+:" HASH ":/p/a", "damaged" },
		{ "1:,gres=a:" HASH ":/p/a", "damaged" },
		{ "1:no:" HASH, "damaged" },                    /* no colon behind it */
		{ "1:no:0123456789abcde:/p/a", "damaged" },
		{ "1:no:0123456789abcdef0:/p/a", "damaged" },
		{ "1:no:0123456789ABCDEF:/p/a", "damaged" },
	};
	/* clang-format on */

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct spec spec = { CONF_WAIT_NO, false, "", "x", (char *)"kept" };
		struct error err = ERROR_INIT;

		assert_int_equal(spec_from_string(&spec, cases[i].text, &err), -EPROTO);
		assert_non_null(strstr(err.text, cases[i].word));
		assert_non_null(strstr(err.text, "submit the job again"));
		assert_string_equal(spec.value, "kept");
	}
}

static void test_too_long_a_value_is_refused(void **state)
{
	_cleanup_(freep) char *value = malloc(DATASET_MAX_VALUE + 2), *text = NULL;
	struct spec spec = { CONF_WAIT_NO, false, "", HASH, value }, again;
	struct error err = ERROR_INIT;

	memset(value, 'a', DATASET_MAX_VALUE + 1);
	value[DATASET_MAX_VALUE + 1] = '\0';
	assert_int_equal(spec_to_string(&spec, &text), 0);
	assert_int_equal(spec_from_string(&again, text, &err), -EPROTO);
	text[strlen(text) - 1] = '\0';
	assert_int_equal(spec_from_string(&again, text, &err), 0);
	spec_deinit(&again);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spec_reads_back_the_same),
		cmocka_unit_test(test_text_is_as_documented),
		cmocka_unit_test(test_forged_texts_are_refused),
		cmocka_unit_test(test_too_long_a_value_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
