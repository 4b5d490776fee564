#include "tests/unit/unit.h"

#include <errno.h>

#include "common/util/parse.h"

static void test_numbers(void **state)
{
	static const struct {
		const char *text;
		int expect;
		uint64_t value;
	} cases[] = {
		{ "0", 0, 0 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 }, /* sign */
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1x", -EINVAL, 0 }, /* rest */
		{ "0x10", -EINVAL, 0 },
	};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		v = 0;
		assert_int_equal(parse_uint64(cases[i].text, &v), cases[i].expect);
		assert_int_equal(v, cases[i].value);
	}
}

static void test_sizes(void **state)
{
	static const struct {
		const char *text;
		int expect;
		uint64_t value;
	} cases[] = {
		{ "0", 0, 0 },
		{ "10", 0, 10 },
		{ "10B", 0, 10 },
		{ "1K", 0, 1024 },
		{ "1kb", 0, 1024 },
		{ "64MiB", 0, 64ULL << 20 },
		{ "1.5G", 0, 3ULL << 29 },
		{ "2T", 0, 2ULL << 40 },
		{ "16777216T", -ERANGE, 0 },
		{ "1P", -EINVAL, 0 },
		{ "1Ki", -EINVAL, 0 },
		{ "G", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ "1.2.3K", -EINVAL, 0 },
		{ "-1K", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		v = 0;
		assert_int_equal(parse_size(cases[i].text, &v), cases[i].expect);
		assert_int_equal(v, cases[i].value);
	}
}

static void test_memory_of_slurm(void **state)
{
	static const struct {
		const char *text;
		int expect;
		uint64_t value;
	} cases[] = {
		{ "300", 0, 300ull << 20 },
		{ "0", 0, 0 },
		{ "64G", 0, 64ull << 30 },
		{ "2T", 0, 2ull << 40 },
		{ "512K", 0, 512 << 10 },
		{ "1.5", 0, 1 << 20 },
		{ "x", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "17592186044416", -ERANGE, 0 },
	};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		v = 0;
		assert_int_equal(parse_slurm_memory(cases[i].text, &v), cases[i].expect);
		assert_int_equal(v, cases[i].value);
	}
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		int expect;
		uint64_t value;
	} cases[] = {
		{ "90", 0, 90000 },	 { "90s", 0, 90000 },
		{ "500ms", 0, 500 },	 { "5m", 0, 300000 },
		{ "2h", 0, 7200000 },	 { "1d", 0, 86400000 },
		{ "1h30m", 0, 5400000 }, { "1.5h", 0, 5400000 },
		{ "5min", -EINVAL, 0 },	 { "m", -EINVAL, 0 },
		{ "", -EINVAL, 0 },	 { "-5m", -EINVAL, 0 },
		{ "1h ", -EINVAL, 0 },	 { "999999999999999999999d", -ERANGE, 0 },
	};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		v = 0;
		assert_int_equal(parse_duration(cases[i].text, &v), cases[i].expect);
		assert_int_equal(v, cases[i].value);
	}
}

static void test_texts_for_people(void **state)
{
	char buf[64];

	assert_string_equal(size_to_string(0, buf), "0 B");
	assert_string_equal(size_to_string(1023, buf), "1023 B");
	assert_string_equal(size_to_string(1536, buf), "1.5 KiB");
	assert_string_equal(size_to_string(148ULL << 30, buf), "148 GiB");
	assert_string_equal(size_to_string(1048575, buf), "1.0 MiB");
	assert_string_equal(duration_to_string(70000, buf), "1:10");
	assert_string_equal(duration_to_string(7384000, buf), "2:03:04");
	assert_string_equal(duration_to_string(7400, buf), "0:07");
	assert_string_equal(duration_to_tenths(0, buf), "0.0 s");
	assert_string_equal(duration_to_tenths(7440, buf), "7.4 s");
	assert_string_equal(duration_to_tenths(9949, buf), "9.9 s");
	assert_string_equal(duration_to_tenths(9950, buf), "0:10");
	assert_string_equal(duration_to_tenths(70000, buf), "1:10");
}

static void test_terminals_are_safe(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "a\nb\x1b[31m", "a\\x0ab\\x1b[31m" },
		{ "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" }, /* valid UTF-8 stays */
		{ "\xc3", "\\xc3" },				/* cut sequence */
		{ "\xc0\xaf", "\\xc0\\xaf" },			/* overlong */
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },		/* surrogate */
		{ "\xc2\x9b", "\\xc2\\x9b" },			/* C1 CSI */
		{ "\xe2\x80\xae", "\\xe2\\x80\\xae" },		/* right-to-left override */
		{ "\xd8\x9c\xd8\x9b", "\\xd8\\x9c\xd8\x9b" }, /* Arabic letter mark; a semicolon */
		{ "\xe2\x80\xa8\xe2\x80\xa7",
		  "\\xe2\\x80\\xa8\xe2\x80\xa7" }, /* a line's end; a dot */
		{ "\xf4\x90\x80\x80\xf0\x9f\x98\x80",
		  "\\xf4\\x90\\x80\\x80\xf0\x9f\x98\x80" }, /* beyond Unicode */
		{ "\xe0\x9f\xbf\xf0\x8f\xbf\xbf",
		  "\\xe0\\x9f\\xbf\\xf0\\x8f\\xbf\\xbf" }, /* overlong */
	};
	char buf[64], tiny[6];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		text_escape(buf, sizeof(buf), cases[i].in, strlen(cases[i].in));
		assert_string_equal(buf, cases[i].out);
	}
	assert_int_equal(text_escape(tiny, sizeof(tiny), "abcdefgh", 8), 5);
	assert_string_equal(tiny, "abcde");
	assert_int_equal(text_escape(tiny, sizeof(tiny), "ab\x01", 3), 2); /* no half escape */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),		 cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_memory_of_slurm),	 cmocka_unit_test(test_durations),
		cmocka_unit_test(test_texts_for_people), cmocka_unit_test(test_terminals_are_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
