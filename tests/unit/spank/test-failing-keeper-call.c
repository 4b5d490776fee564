/*
 * What the plugin does in slurmd and in sbatch, with each of its calls failing once: slurmd runs
 * for months and must not lose a descriptor to it, and no job may be refused for what failed on our
 * side. The calls of what it starts succeed.
 */
#include "tests/unit/spank/test-spank-fake.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/dataset/dataset.h"
#include "spank/cli-filter.h"
#include "spank/keeper-call.h"
#include "spank/options.h"
#include "spank/source-check.h"
#include "tests/unit/failing.h"

static char program[512];

static void let_children_be(void)
{
	failcalls_disarm();
}

static enum answer answer_with(int r, const char *why)
{
	if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
		return WRONG;
	return r < 0 && !why[0] ? WRONG : answer_of(r);
}

static enum answer start_keeper(void *arg)
{
	static const struct keeper_call_job job = { .job_id = 1,
						    .uid = 1,
						    .gid = 1,
						    .spec = "x",
						    .node = "n",
						    .nodelist = "n",
						    .n_nodes = "1" };
	char why[KEEPER_CALL_WHY_SIZE] = "";

	return answer_with(keeper_call_run(&job, NULL, why), why);
}

static enum answer clean_up(void *arg)
{
	char why[KEEPER_CALL_WHY_SIZE] = "";

	return answer_with(keeper_call_clean(1, NULL, why), why);
}

static void refuse(void *arg, const struct source_check_result *result)
{
	*(bool *)arg |= result->errnum != 0;
}

static enum answer look_at_source(void *arg)
{
	struct dataset d = { .scheme = DATASET_SCHEME_FILE, .source = arg };
	const struct dataset_list list = { .items = &d, .n_items = 1 };
	bool refused = false;
	size_t index;
	int r = source_check(&list, SOURCE_CHECK_LIMIT_MS, &index, refuse, &refused);

	if (refused || waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
		return WRONG;
	return answer_of(r);
}

static int setup(void **state)
{
	_cleanup_(file_closep) FILE *f = NULL;

	if (unit_scratch_setup(state) < 0)
		return -1;
	snprintf(program, sizeof(program), "%s/keeper", (char *)*state);
	keeper_call_program = program;
	f = fopen(program, "w");
	if (!f || fputs("#!/bin/sh\n[ \"$1\" = clean ] || printf R\n", f) < 0)
		return -1;
	return fchmod(fileno(f), 0755);
}

/* Red without the cleanup of rd in spawn_reading(), without waitpid() or a sentence in spawn(). */
static void test_a_keeper_is_started_or_it_is_said(void **state)
{
	assert_true(walk("run", start_keeper, NULL) > 10);
}

static void test_a_clean_up_is_started_or_it_is_said(void **state)
{
	assert_true(walk("clean", clean_up, NULL) > 3);
}

/* Red when a descriptor of the pipe stays open behind it. */
static void test_no_job_is_refused_for_a_look_that_failed(void **state)
{
	assert_true(walk("look", look_at_source, program) > 2);
}

static enum answer take_options(void *arg)
{
	const struct options *o = options_get();
	const bool script = fake.context == S_CTX_ALLOCATOR;
	const struct options_values *v = script ? &o->script : &o->command_line;
	const char *const *wait = script ? &o->wait_script : &o->wait_command_line;
	enum answer answer;

	for (size_t i = 0; i < 3; i++) {
		fake.options[0].cb(0, i ? "/b" : "/a", 0);
		fake.options[1].cb(0, i ? "tasks" : "no", 0);
	}
	answer = o->no_memory ? SAID_SO
		 : v->n_values == 3 && !strcmp(v->values[0], "/a") && !strcmp(v->values[2], "/b") &&
				 *wait && !strcmp(*wait, "tasks")
			 ? WHOLE
			 : WRONG;
	options_reset();
	free(cli_filter_take());
	return answer;
}

/* Red when a value is lost and nothing is said, or what was kept is not freed. */
static void test_options_are_all_kept_or_it_is_said(void **state)
{
	char *name = program_invocation_short_name;

	for (int script = 0; script < 2; script++) {
		fake_reset(script ? S_CTX_ALLOCATOR : S_CTX_LOCAL);
		program_invocation_short_name = (char *)(script ? "sbatch" : "srun");
		options_register(NULL);
		assert_true(walk("options", take_options, NULL) >= 9);
		program_invocation_short_name = name;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_keeper_is_started_or_it_is_said, setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_clean_up_is_started_or_it_is_said, setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_no_job_is_refused_for_a_look_that_failed,
						setup, unit_scratch_teardown),
		cmocka_unit_test(test_options_are_all_kept_or_it_is_said),
	};

	if (unit_is_under_valgrind()) /* its malloc() never fails */
		return UNIT_SKIPPED;
	pthread_atfork(NULL, NULL, let_children_be);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
