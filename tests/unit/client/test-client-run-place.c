#include "client/run-place.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

static const char *const *env; /* pairs */

static const char *get_env(const char *name)
{
	for (const char *const *e = env; e && *e; e += 2)
		if (!strcmp(e[0], name))
			return e[1];
	return NULL;
}

static struct run_place place(const char *const *variables, const char *value)
{
	struct run_place p;

	env = variables;
	run_place_get(&p, value, get_env);
	assert_int_equal(
		strspn(p.key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"),
		strlen(p.key));
	assert_true(p.key[0] != '.');
	return p;
}

static void test_launchers_number_their_tasks(void **state)
{
	static const struct {
		const char *variables[12];
		bool shared;
		uint32_t local_id, n_local;
	} cases[] = {
		{ { NULL }, false, 0, 0 },
		{ { "SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_LOCALID", "2", "SLURM_NODEID",
		    "1", "SLURM_STEP_TASKS_PER_NODE", "2,4" },
		  true,
		  2,
		  4 },
		{ { "SLURM_JOB_ID", "7", "SLURM_LOCALID", "0" }, false, 0, 0 }, /* a batch script */
		/* The same on Slurm 26.05, and shells of salloc */
		{ { "SLURM_JOB_ID", "7", "SLURM_STEP_ID", "-5", "SLURM_LOCALID", "0" },
		  false,
		  0,
		  0 },
		{ { "SLURM_JOB_ID", "7", "SLURM_STEP_ID", "-6", "SLURM_LOCALID", "0" },
		  false,
		  0,
		  0 },
		{ { "SLURM_JOB_ID", "7", "SLURM_STEP_ID", "4294967290", "SLURM_LOCALID", "0" },
		  false,
		  0,
		  0 },
		{ { "PALS_LOCAL_RANKID", "3", "PALS_APID", "x/y" }, true, 3, 0 },
		{ { "OMPI_COMM_WORLD_LOCAL_RANK", "1", "OMPI_COMM_WORLD_LOCAL_SIZE", "2" },
		  true,
		  1,
		  2 },
		{ { "MPI_LOCALRANKID", "0", "MPI_LOCALNRANKS", "8" }, true, 0, 8 },
		{ { "MPI_LOCALRANKID", "-1" }, false, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run_place p = place(cases[i].variables, "/x");

		assert_int_equal(p.shared, cases[i].shared);
		assert_int_equal(p.local_id, cases[i].local_id);
		assert_int_equal(p.n_local, cases[i].n_local);
	}
}

static void test_tasks_of_a_step_have_one_key_and_no_other(void **state)
{
	static const char *const a[] = {
		"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_LOCALID", "0", NULL
	};
	static const char *const b[] = {
		"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_LOCALID", "9", NULL
	};
	static const char *const c[] = {
		"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "1", "SLURM_LOCALID", "0", NULL
	};
	static const char *const d[] = { "PMIX_NAMESPACE", "prte@a", "OMPI_COMM_WORLD_LOCAL_RANK",
					 "0", NULL };
	static const char *const e[] = { "PMIX_NAMESPACE", "prte/a", "OMPI_COMM_WORLD_LOCAL_RANK",
					 "1", NULL };

	assert_string_equal(place(a, "/x").key, place(b, "/x").key);
	assert_string_not_equal(place(a, "/x").key, place(c, "/x").key);
	assert_string_not_equal(place(a, "/x").key, place(a, "/y").key);
	assert_string_not_equal(place(d, "/x").key, place(e, "/x").key);
	assert_int_equal(place(a, "/x").job_id, 7);
	assert_int_equal(place(NULL, "/x").job_id, (uint32_t)getpid());
}

static void test_tasks_per_node(void **state)
{
	static const struct {
		const char *text;
		uint32_t node, tasks;
	} cases[] = {
		{ "4", 0, 4 },	     { "4", 1, 0 },	  { "2(x3),1", 0, 2 }, { "2(x3),1", 2, 2 },
		{ "2(x3),1", 3, 1 }, { "2(x3),1", 4, 0 }, { "", 0, 0 },	       { "x", 0, 0 },
		{ "1,2,3", 2, 3 },   { "1(y2)", 0, 0 },	  { "1(x2", 1, 0 },    { "1(x2);3", 2, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(run_place_parse_tasks(cases[i].text, cases[i].node),
				 cases[i].tasks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launchers_number_their_tasks),
		cmocka_unit_test(test_tasks_of_a_step_have_one_key_and_no_other),
		cmocka_unit_test(test_tasks_per_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
