#include "tests/unit/unit.h"

#include "common/slurm/gres.h"

/* Seen failing with a reader that keeps the type or the number, that takes none for a name, that
 * adds a name twice, and that looks for the beginning of a name. */
static void test_names_of_what_is_asked_for(void **state)
{
	static const struct {
		const char *text;
		bool tres;
		const char *names;
	} cases[] = {
		{ "nvme:100", false, "nvme" },
		{ "nvme", false, "nvme" },
		{ "nvme:100,gpu:a100:4", false, "nvme+gpu" },
		{ "gres/nvme=100,gres/gpu:a100:4", true, "nvme+gpu" },
		{ "gres/nvme:1", false, "nvme" },
		{ "cpu=4,license/matlab:1", true, "" },
		{ "gpu:1,gpu:2,gpus:1", false, "gpu+gpus" },
		{ "none", false, "" },
		{ "", false, "" },
		{ ",,:1,=,nvme", false, "nvme" },
		{ "a b:1,x;y,n\xc3\xa4me", false, "" },
		{ "a+b", false, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char names[GRES_SIZE] = "";

		gres_add(names, cases[i].text, cases[i].tres);
		if (strcmp(names, cases[i].names))
			fail_msg("'%s': '%s'", cases[i].text, names);
	}
}

static void test_who_has_what(void **state)
{
	assert_true(gres_has("nvme", "nvme"));
	assert_true(gres_has("gpu+nvme+x", "nvme"));
	assert_true(gres_has("gpu+nvme+x", "x"));
	assert_false(gres_has("gpu+nvme2", "nvme"));
	assert_false(gres_has("nvme2+gpu", "nvme"));
	assert_false(gres_has("gpu+nvm", "nvme"));
	assert_false(gres_has("", "nvme"));
	assert_false(gres_has("gpu+x", "gpu+x"));
}

static void test_what_has_no_room_is_left_out(void **state)
{
	char names[GRES_SIZE] = "", text[16];

	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "number%d:1", i);
		gres_add(names, text, false);
		assert_true(gres_is_list(names, strlen(names)));
	}
	assert_true(gres_has(names, "number0"));
	assert_false(gres_has(names, "number99"));
	for (size_t room = 0; room < 4;
	     room++) { /* of a separator and two letters, with the final NUL */
		memset(names, 'x', sizeof(names));
		names[GRES_SIZE - 1 - room] = '\0';
		gres_add(names, "ab", false);
		assert_int_equal(gres_has(names, "ab"), room == 3);
		assert_int_equal(strlen(names), GRES_SIZE - 1 - (room == 3 ? 0 : room));
	}
}

static void test_what_is_a_list(void **state)
{
	static const char *const not [] = { "", "+", "a+", "+a", "a++b", "a:1", "a,b", "a b" };

	for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
		assert_false(gres_is_list(not [i], strlen(not [i])));
	char full[GRES_SIZE];

	memset(full, 'x', sizeof(full));
	assert_true(gres_is_list(full, GRES_SIZE - 1));
	assert_false(gres_is_list(full, GRES_SIZE));
	assert_false(gres_is_list("a\0b", 3));
	assert_false(gres_is_list("a\0", 2));
	assert_true(gres_is_list("ab+c", 4));
	assert_false(gres_is_list("ab+", 3));
	assert_true(gres_is_list("a", 1));
	assert_true(gres_is_list("a+b_c-d.9", 9));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_what_is_asked_for),
		cmocka_unit_test(test_who_has_what),
		cmocka_unit_test(test_what_has_no_room_is_left_out),
		cmocka_unit_test(test_what_is_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
