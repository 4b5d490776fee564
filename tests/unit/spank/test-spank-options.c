#include "tests/unit/spank/test-spank-fake.h"

#include <errno.h>

#include "spank/options.h"

static void test_origin_is_told_by_where_the_text_lies(void **state)
{
	/* One object: what lies behind the line is nothing else by chance. */
	static const char texts[] = "v\0v\0sbatch\0--stage-data=v\0end";
	const char *env = texts, *script = texts + 2, *line = texts + 4, *behind = texts + 26;
	uintptr_t start = (uintptr_t)line, end = (uintptr_t)behind;

	assert_int_equal(options_find_origin(env, env, start, end, true), OPTIONS_INHERITED);
	assert_int_equal(options_find_origin(line + 20, env, start, end, true),
			 OPTIONS_COMMAND_LINE);
	assert_int_equal(options_find_origin(script, env, start, end, true), OPTIONS_SCRIPT);
	assert_int_equal(options_find_origin(behind, env, start, end, true), OPTIONS_SCRIPT);
	/* srun and salloc read no scripts, whatever they do to the text */
	assert_int_equal(options_find_origin(script, env, start, end, false), OPTIONS_COMMAND_LINE);
	assert_int_equal(options_find_origin(script, NULL, 0, 0, true), OPTIONS_SCRIPT);
}

static void test_bounds_are_found_behind_any_program_name(void **state)
{
	static const struct {
		const char *name;
		int expect;
	} cases[] = {
		{ "(sbatch)", 0 },
		{ "(a b) 1 2 (c)", 0 },
		{ "(a", -EINVAL },
		{ "", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[1024];
		uintptr_t start = 0, end = 0;
		int n = snprintf(text, sizeof(text), "42 %s S", cases[i].name);

		for (int field = 4; field <= 52; field++)
			n += snprintf(text + n, sizeof(text) - (size_t)n, " %d", field * 1000);
		assert_int_equal(options_parse_stat(text, &start, &end), cases[i].expect);
		if (cases[i].expect == 0) {
			assert_int_equal(start, 48000);
			assert_int_equal(end, 49000);
		}
	}
	assert_int_equal(options_parse_stat("1 (x) S 1 2 3", &(uintptr_t){ 0 }, &(uintptr_t){ 0 }),
			 -EINVAL);
}

static int call(const char *name, const char *value, int remote)
{
	for (size_t i = 0; i < fake.n_options; i++)
		if (!strcmp(fake.options[i].name, name))
			return fake.options[i].cb(fake.options[i].val, value, remote);
	fail_msg("option %s is not registered", name);
	return -1;
}

static void test_repeats_add_up_until_reset(void **state)
{
	const struct options *o = options_get();
	char buf[] = "/a";

	fake_reset(S_CTX_LOCAL);
	options_register(NULL);
	assert_int_equal(call("stage-data", buf, 0), 0);
	buf[1] = 'x'; /* Slurm frees it: kept is a copy */
	assert_int_equal(call("stage-data", "/b", 0), 0);
	assert_int_equal(call("stage-wait", "no", 0), 0);
	assert_int_equal(call("stage-wait", "tasks", 0), 0);
	assert_int_equal(o->command_line.n_values, 2);
	assert_string_equal(o->command_line.values[0], "/a");
	assert_string_equal(o->command_line.values[1], "/b");
	assert_string_equal(o->wait_command_line, "tasks");
	options_reset();
	assert_int_equal(o->command_line.n_given, 0);
	assert_null(o->wait_command_line);
}

static char *of_command_line; /* the kernel laid it out */

/* sbatch reads both. Seen failing where the bounds of the command line were not found, and where a
 * reset left the script's. */
static void test_scripts_and_command_lines_are_kept_apart(void **state)
{
	const struct options *o = options_get();
	char *name = program_invocation_short_name;

	if (unit_is_under_valgrind()) /* which lays out the command line elsewhere */
		skip();

	fake_reset(S_CTX_ALLOCATOR);
	program_invocation_short_name = (char *)"sbatch";
	options_register(NULL);
	assert_int_equal(fake.n_options, 2);
	for (size_t i = 0; i < fake.n_options; i++)
		assert_int_equal(fake.options[i].has_arg, 1);
	assert_int_equal(call("stage-data", "/script", 0), 0);
	assert_int_equal(call("stage-data", of_command_line, 0), 0);
	assert_int_equal(call("stage-data", NULL, 0), 0);
	assert_int_equal(call("stage-wait", "tasks", 0), 0);
	assert_int_equal(call("stage-wait", of_command_line, 0), 0);
	program_invocation_short_name = name;
	assert_int_equal(o->script.n_values, 2);
	assert_string_equal(o->script.values[0], "/script");
	assert_string_equal(o->script.values[1], "");
	assert_int_equal(o->command_line.n_values, 1);
	assert_string_equal(o->command_line.values[0], of_command_line);
	assert_string_equal(o->wait_script, "tasks");
	assert_string_equal(o->wait_command_line, of_command_line);
	assert_false(o->no_memory);
	options_reset();
	assert_int_equal(o->script.n_given + o->script.n_values + o->command_line.n_values, 0);
	assert_null(o->script.values);
	assert_null(o->wait_script);
	assert_null(o->wait_command_line);
}

static void test_inherited_and_remote_values_do_not_count(void **state)
{
	const struct options *o = options_get();

	if (unit_is_under_valgrind()) /* and the environment */
		skip();

	fake_reset(S_CTX_LOCAL);
	options_register(NULL);
	setenv(OPTIONS_ENV_DATA, "/a", 1);
	setenv(OPTIONS_ENV_WAIT, "no", 1);
	assert_int_equal(call("stage-data", getenv(OPTIONS_ENV_DATA), 0), 0);
	assert_int_equal(call("stage-wait", getenv(OPTIONS_ENV_WAIT), 0), 0);
	assert_int_equal(call("stage-data", "/b", 1), 0);
	assert_int_equal(call("stage-wait", "tasks", 1), 0);
	assert_int_equal(o->command_line.n_given + o->script.n_given, 0);
	assert_null(o->wait_command_line);
	unsetenv(OPTIONS_ENV_DATA);
	unsetenv(OPTIONS_ENV_WAIT);
}

/* Of the clients sbatch alone reads one; what it has read there lies elsewhere than its arguments.
 */
static void test_a_script_has_its_own_values(void **state)
{
	static const struct {
		const char *program;
		spank_context_t context;
		bool reads;
	} cases[] = {
		{ "sbatch", S_CTX_ALLOCATOR, true },
		{ "salloc", S_CTX_ALLOCATOR, false },
		{ "srun", S_CTX_LOCAL, false },
	};
	const struct options *o = options_get();
	char *name = program_invocation_short_name, *value = strdup("tasks"), *other = strdup("no");

	assert_true(value && other);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fake_reset(cases[i].context);
		options_register(NULL);
		program_invocation_short_name = (char *)cases[i].program;
		assert_int_equal(call("stage-wait", other, 0), 0);
		assert_int_equal(call("stage-wait", value, 0), 0);
		assert_int_equal(call("stage-wait", other, 1), 0); /* on a node */
		program_invocation_short_name = name;
		assert_string_equal(cases[i].reads ? o->wait_script : o->wait_command_line,
				    "tasks");
		assert_null(cases[i].reads ? o->wait_command_line : o->wait_script);
		options_reset();
	}
	free(value);
	free(other);
}

static void test_a_flood_is_counted_not_kept(void **state)
{
	const struct options *o = options_get();

	fake_reset(S_CTX_LOCAL);
	options_register(NULL);
	for (int i = 0; i < OPTIONS_MAX_VALUES + 10; i++)
		assert_int_equal(call("stage-data", "/a", 0), 0);
	assert_int_equal(o->command_line.n_values, OPTIONS_MAX_VALUES);
	assert_int_equal(o->command_line.n_given, OPTIONS_MAX_VALUES + 10);
	options_reset();
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_origin_is_told_by_where_the_text_lies),
		cmocka_unit_test(test_bounds_are_found_behind_any_program_name),
		cmocka_unit_test(test_repeats_add_up_until_reset),
		cmocka_unit_test(test_scripts_and_command_lines_are_kept_apart),
		cmocka_unit_test(test_inherited_and_remote_values_do_not_count),
		cmocka_unit_test(test_a_script_has_its_own_values),
		cmocka_unit_test(test_a_flood_is_counted_not_kept),
	};

	of_command_line = argv[0];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
