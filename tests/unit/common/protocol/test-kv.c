#include "tests/unit/unit.h"

#include "common/protocol/kv.h"

static void test_bytes_from_outside(void **state)
{
	static const struct {
		const char *data;
		size_t size;
		int expect;
	} cases[] = {
		{ "", 0, KV_E_MALFORMED },				       /* nothing */
		{ "a=1", 3, KV_E_MALFORMED },				       /* no final NUL */
		{ "a=1\0a=2", 8, KV_E_MALFORMED },			       /* twice */
		{ "a", 2, KV_E_MALFORMED },				       /* no '=' */
		{ "=1", 3, KV_E_MALFORMED },				       /* no key */
		{ "A=1", 4, KV_E_MALFORMED },				       /* capital */
		{ "1a=1", 5, KV_E_MALFORMED },				       /* digit first */
		{ "a b=1", 6, KV_E_MALFORMED },				       /* space in key */
		{ "\0", 2, KV_E_MALFORMED },				       /* empty fields */
		{ "abcdefghijklmnopqrstuvwxyz0123456=1", 36, KV_E_MALFORMED }, /* key of 33 */
		{ "abcdefghijklmnopqrstuvwxyz012345=1", 35, KV_E_SUCCESS },    /* key of 32 */
		{ "a=1", 4, KV_E_SUCCESS },
		{ "a=", 3, KV_E_SUCCESS },	       /* empty value */
		{ "a.b_9==\n\x1b", 10, KV_E_SUCCESS }, /* any byte in a value */
		{ "a=1\0ab=2", 9, KV_E_SUCCESS },      /* a key that begins like another */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(kv_freep) struct kv *kv = NULL;

		assert_int_equal(kv_new_from_data(&kv, cases[i].data, cases[i].size),
				 cases[i].expect);
		assert_true((kv != NULL) == (cases[i].expect == KV_E_SUCCESS));
	}
}

static void test_print_then_parse_is_the_same(void **state)
{
	_cleanup_(kv_freep) struct kv *a = NULL, *b = NULL;
	const void *data;
	const char *key, *value;
	size_t size;

	assert_int_equal(kv_new(&a), 0);
	kv_set(a, "name", "imagenet");
	kv_set_u64(a, "bytes", UINT64_MAX);
	kv_setf(a, "text", "%s\n%d", "line", 7);
	kv_set(a, "name", "other"); /* replaces */
	assert_int_equal(kv_get_data(a, &data, &size), 0);
	assert_int_equal(kv_new_from_data(&b, data, size), KV_E_SUCCESS);
	assert_string_equal(kv_get(b, "name"), "other");
	assert_int_equal(kv_get_u64(b, "bytes", 0), UINT64_MAX);
	assert_string_equal(kv_get(b, "text"), "line\n7");
	assert_null(kv_get(b, "nam"));
	assert_string_equal(kv_get_or_empty(b, "absent"), "");
	assert_int_equal(kv_get_u64(b, "name", 5), 5);
	assert_true(kv_get_field(b, 0, &key, &value));
	assert_string_equal(key, "bytes");
	assert_true(kv_get_field(b, 2, &key, &value));
	assert_false(kv_get_field(b, 3, &key, &value));
}

static void test_limits_are_kept_and_the_first_failure_stays(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	_cleanup_(freep) char *big = malloc(KV_MAX_SIZE + 1);
	const void *data;
	size_t size;
	char key[16];

	memset(big, 'x', KV_MAX_SIZE);
	big[KV_MAX_SIZE] = '\0';
	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "a", big);
	kv_set(kv, "b", "1");
	assert_int_equal(kv_get_data(kv, &data, &size), KV_E_TOO_BIG);
	kv_free(steal_ptr(kv));

	assert_int_equal(kv_new(&kv), 0);
	for (int i = 0; i <= KV_MAX_FIELDS; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		kv_set(kv, key, "");
	}
	assert_int_equal(kv_get_data(kv, &data, &size), KV_E_TOO_BIG);
	kv_free(steal_ptr(kv));

	assert_int_equal(kv_new(&kv), 0);
	kv_set(kv, "Bad", "1");
	assert_int_equal(kv_get_data(kv, &data, &size), KV_E_MALFORMED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_from_outside),
		cmocka_unit_test(test_print_then_parse_is_the_same),
		cmocka_unit_test(test_limits_are_kept_and_the_first_failure_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
