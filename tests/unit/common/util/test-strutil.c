/*
 * Words that are compared and guessed. Each case fails by a small mistake in strutil.c that
 * `tools/mutate common/util/strutil.c` makes.
 */
#include "tests/unit/unit.h"

#include "common/util/strutil.h"

static void test_equal_but_for_case(void **state)
{
	static const struct {
		const char *a, *b;
		bool equal, begins; /* a with b */
	} cases[] = {
		{ "Tier", "tIER", true, true },	  { "", "", true, true },
		{ "tier", "tie", false, true },	  { "tie", "tier", false, false },
		{ "tier", "tear", false, false }, { "x", "", false, true },
		{ "", "x", false, false },	  { "@z", "`Z", false, false },
		{ "[a", "{A", false, false },	  { "aZ", "Az", true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (strutil_equal(cases[i].a, cases[i].b) != cases[i].equal ||
		    strutil_begin(cases[i].a, cases[i].b) != cases[i].begins)
			fail_msg("%s and %s", cases[i].a, cases[i].b);
}

#define LETTERS_39 "abcdefghijklmnopqrstuvwxyzabcdefghijklm"

static void test_what_was_meant(void **state)
{
	static const struct {
		const char *word, *known[4], *nearest;
	} cases[] = {
		{ "method", { "method" }, "method" },
		{ "metod", { "method" }, "method" },   /* left out */
		{ "methhod", { "method" }, "method" }, /* put in */
		{ "mathod", { "method" }, "method" },  /* changed */
		{ "emthod", { "method" }, "method" },  /* swapped, in front */
		{ "methdo", { "method" }, "method" },  /* swapped, at the end */
		{ "METHDO", { "method" }, "method" },
		{ "etmhod", { "method" }, "method" }, /* moved by two places: left out and put in */
		{ "meth", { "method" }, NULL }, /* a short word, of which one slip is let pass */
		{ "metho", { "method" }, "method" },
		{ "ethod", { "method" }, "method" },
		{ "thodx", { "method" }, NULL },
		{ "methodxy", { "method" }, "method" },
		{ "methodxyz", { "method" }, NULL },
		{ "xymethod", { "method" }, "method" },
		{ "mxthyd", { "method" }, "method" },
		{ "mxthyz", { "method" }, NULL },
		{ "ehtmod", { "method" }, NULL },
		{ "copy", { "copx", "copy" }, "copy" }, /* the nearest, not the first */
		{ "cop", { "copy", "copx" }, "copy" },	/* of two that are as near, the first */
		{ "cpoy", { "copy" }, "copy" },
		{ "ocpy", { "copy" }, "copy" },
		{ "ocyp", { "copy" }, NULL },
		{ "abcde", { "abxye" }, "abxye" },
		{ "xmetxhz", { "metohd" }, NULL },
		{ "a", { LETTERS_39 LETTERS_39 LETTERS_39 LETTERS_39 LETTERS_39, "ab" }, NULL },
		{ "cxxy", { "copy" }, NULL },
		{ "a", { "b" }, NULL }, /* all of it another */
		{ "ab", { "cb" }, "cb" },
		{ "ab", { "a" }, "a" },
		{ "a", { "ab" }, NULL },
		{ "", { "a" }, NULL },
		{ "a", { "", "a" }, "a" },
		{ LETTERS_39 "x", { LETTERS_39 "y" }, LETTERS_39 "y" },
		{ LETTERS_39 "xx", { LETTERS_39 "x" }, NULL },
		{ LETTERS_39 "x", { LETTERS_39 "xx", "x" }, NULL },
		{ LETTERS_39 "x", { LETTERS_39 }, LETTERS_39 },
		{ LETTERS_39, { LETTERS_39 "x" }, LETTERS_39 "x" },
		{ "word", { NULL }, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *nearest = strutil_nearest(cases[i].word, cases[i].known);

		if (nearest && cases[i].nearest)
			assert_string_equal(nearest, cases[i].nearest);
		else if (nearest != cases[i].nearest)
			fail_msg("%s: %s", cases[i].word, nearest ? nearest : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_but_for_case),
		cmocka_unit_test(test_what_was_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
