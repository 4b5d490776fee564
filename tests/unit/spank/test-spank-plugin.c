#include "tests/unit/spank/test-spank-fake.h"

#include <dlfcn.h>
#include <time.h>

#include "common/config/spec.h"
#include "common/util/fd.h"

/*
 * The plugin as Slurm loads it: everything bound at once, from a program that has SPANK's functions
 * and nothing else of Slurm's. The path of stage_data.so is in STAGE_TEST_PLUGIN.
 */
static void *plugin;

static int (*get_hook(const char *name))(spank_t, int, char **)
{
	int (*hook)(spank_t, int, char **);

	*(void **)&hook = dlsym(plugin, name);
	if (!hook)
		fail_msg("no hook %s", name);
	return hook;
}

static void test_it_loads_without_libslurm(void **state)
{
	const char *path = getenv("STAGE_TEST_PLUGIN");

	if (!path)
		skip();
	plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		fail_msg("%s", dlerror());
	assert_string_equal(dlsym(plugin, "psid_plugin"), "yes");
	assert_string_equal(dlsym(plugin, "plugin_type"), "spank");
	assert_string_equal(dlsym(plugin, "plugin_name"), "stage_data");
	assert_int_equal(*(unsigned *)dlsym(plugin, "plugin_version"), SLURM_VERSION_NUMBER);
}

/* Names of ours or of inih's could meet others in sbatch, slurmd or psid. */
static void test_nothing_else_is_exported(void **state)
{
	static const char *const hidden[] = { "error_set",	     "kv_new",	      "ini_parse",
					      "ini_parse_file",	     "dataset_merge", "conf_load",
					      "keeper_call_program", "submit_init",   "fd_closep" };

	if (!plugin)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(hidden); i++) {
		Dl_info info;
		void *p = dlsym(plugin, hidden[i]);

		/* libc may have one of the name, the plugin may not */
		if (p && dladdr(p, &info))
			assert_null(strstr(info.dli_fname, "stage_data.so"));
	}
}

static double measure_us(const char *name)
{
	enum { N = 2000 };
	int (*hook)(spank_t, int, char **) = get_hook(name);
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < N; i++)
		assert_int_equal(hook(NULL, 0, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / N;
}

static void test_a_job_without_the_option_pays_less_than_a_millisecond(void **state)
{
	static const struct {
		const char *hook;
		spank_context_t context;
	} cases[] = {
		{ "slurm_spank_init_post_opt", S_CTX_ALLOCATOR },
		{ "slurm_spank_init_post_opt", S_CTX_LOCAL },
		{ "slurm_spank_init_post_opt", S_CTX_REMOTE },
		{ "slurm_spank_user_init", S_CTX_REMOTE },
		{ "slurm_spank_task_init", S_CTX_REMOTE },
		{ "slurm_spank_exit", S_CTX_REMOTE },
		{ "slurm_spank_job_prolog", S_CTX_JOB_SCRIPT },
		{ "slurm_spank_job_epilog", S_CTX_JOB_SCRIPT },
	};

	if (!plugin)
		skip();
	unsetenv(SPEC_ENV_PROLOG);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		double us;

		fake_reset(cases[i].context);
		us = measure_us(cases[i].hook);
		print_message("%s: %.2f us\n", cases[i].hook, us);
		if (us >= 1000)
			fail_msg("%s takes %.0f us", cases[i].hook, us);
		assert_string_equal(fake.log, "");
		assert_null(fake.control);
		assert_null(fake.env[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_loads_without_libslurm),
		cmocka_unit_test(test_nothing_else_is_exported),
		cmocka_unit_test(test_a_job_without_the_option_pays_less_than_a_millisecond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
