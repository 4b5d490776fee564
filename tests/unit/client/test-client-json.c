#include "client/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char text[1024];

static struct json begin(FILE **fp)
{
	struct json j;

	memset(text, 0, sizeof(text));
	*fp = fmemopen(text, sizeof(text), "w");
	assert_non_null(*fp);
	json_init(&j, *fp);
	return j;
}

static void test_texts_are_valid_json_whatever_bytes_they_have(void **state)
{
	static const struct {
		const char *bytes, *json;
	} cases[] = {
		{ "plain", "\"plain\"" },
		{ "", "\"\"" },
		{ "a\"b\\c", "\"a\\\"b\\\\c\"" },
		{ "tab\tline\n", "\"tab\\tline\\n\"" },
		{ "\x1b[2J", "\"\\u001b[2J\"" },
		{ "\x7f", "\"\\u007f\"" },
		{ "\xe2\x80\xaegnp", "\"\\u202egnp\"" }, /* right-to-left override */
		{ "\xd8\x9c", "\"\\u061c\"" },		 /* Arabic letter mark */
		{ "\xe2\x80\xa8", "\"\\u2028\"" },	 /* a line ends */
		{ "\xe2\x80\xa6", "\"\xe2\x80\xa6\"" },	 /* an ellipsis stays */
		{ "\xc2\x9b", "\"\\u009b\"" },		 /* C1: CSI */
		{ "gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\"" },
		{ "\xff", "\"\\udcff\"" },				    /* no UTF-8 at all */
		{ "\xc0\xaf", "\"\\udcc0\\udcaf\"" },			    /* overlong */
		{ "\xed\xa0\x80", "\"\\udced\\udca0\\udc80\"" },	    /* a surrogate */
		{ "\xe2\x82", "\"\\udce2\\udc82\"" },			    /* cut */
		{ "\xf4\x90\x80\x80", "\"\\udcf4\\udc90\\udc80\\udc80\"" }, /* beyond U+10FFFF */
		{ "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"" },
	};
	FILE *f;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct json j = begin(&f);

		json_put_text(&j, NULL, cases[i].bytes);
		fclose(f);
		assert_string_equal(text, cases[i].json);
	}
}

static void test_commas_stand_between_members_only(void **state)
{
	FILE *f;
	struct json j = begin(&f);

	json_open_object(&j, NULL);
	json_open_array(&j, "empty");
	json_close_array(&j);
	json_open_array(&j, "list");
	json_put_u64(&j, NULL, 1);
	json_open_object(&j, NULL);
	json_put_u64(&j, "yes", 1);
	json_put_null(&j, "nothing");
	json_close_object(&j);
	json_put_text(&j, NULL, NULL);
	json_close_array(&j);
	json_put_known(&j, "unknown", 0);
	json_put_known(&j, "known", 18446744073709551615ULL);
	json_close_object(&j);
	fclose(f);
	assert_string_equal(text, "{\"empty\":[],\"list\":[1,{\"yes\":1,\"nothing\":null},null],"
				  "\"unknown\":null,\"known\":18446744073709551615}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts_are_valid_json_whatever_bytes_they_have),
		cmocka_unit_test(test_commas_stand_between_members_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
