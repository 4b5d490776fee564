#include "client/srun.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_what_names_the_job_stays_and_what_shapes_a_step_goes(void **state)
{
	static const struct {
		const char *variable;
		bool kept;
	} cases[] = {
		{ "PATH=/usr/bin", true },
		{ "HOME=/home/a", true },
		{ "STAGE_DATA_SOCKET=/run/x", true },
		{ "SLURM_JOB_ID=7", true },
		{ "SLURM_JOBID=7", true },
		{ "SLURM_JOB_NODELIST=n[1-3]", true },
		{ "SLURM_JOB_NUM_NODES=3", true },
		{ "SLURM_JOB_NUM_NODES_HET_GROUP_1=1", true },
		{ "SLURM_JOB_ID_HET_GROUP_1=8", true },
		{ "SLURM_HET_SIZE=2", true },
		{ "SLURM_CONF=/etc/slurm/slurm.conf", true },
		{ "SLURM_SPANK_STAGE_SPEC=1:no:0:x", true },
		{ "SLURM_SPANK__SLURM_SPANK_OPTION_stage_data_stage_data=/x", true },
		{ "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image=pytorch", false },
		{ "SLURM_CPUS_PER_TASK=8", false },
		{ "SLURM_TRES_PER_TASK=cpu=8", false },
		{ "SLURM_NTASKS=64", false },
		{ "SLURM_NTASKS_PER_NODE=16", false },
		{ "SLURM_NPROCS=64", false },
		{ "SLURM_MEM_PER_CPU=1000", false },
		{ "SLURM_MEM_PER_NODE=1000", false },
		{ "SLURM_GRES=gpu:4", false },
		{ "SLURM_GPUS_PER_TASK=1", false },
		{ "SLURM_DISTRIBUTION=cyclic", false },
		{ "SLURM_HINT=nomultithread", false },
		{ "SLURM_CPU_BIND=quiet,mask_cpu:0x1", false },
		{ "SLURM_EXPORT_ENV=NONE", false },
		{ "SLURM_TASK_PROLOG=/x", false },
		{ "SLURM_LABELIO=1", false },
		{ "SLURM_WAIT=1", false },
		{ "SLURM_LOCALID=0", false },
		{ "SLURM_SOMETHING_NEW=1", false },
		{ "SRUN_CPUS_PER_TASK=8", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (srun_keeps_variable(cases[i].variable) != cases[i].kept)
			fail_msg("%s", cases[i].variable);
}

static void test_nodes_of_all_components_are_counted(void **state)
{
	assert_int_equal(unsetenv("SLURM_JOB_ID"), 0);
	assert_int_equal(srun_get_n_nodes(), 0);
	setenv("SLURM_JOB_ID", "7", 1);
	setenv("SLURM_JOB_NUM_NODES", "3", 1);
	assert_int_equal(srun_get_n_nodes(), 3);
	setenv("SLURM_HET_SIZE", "2", 1);
	setenv("SLURM_JOB_NUM_NODES_HET_GROUP_0", "3", 1);
	setenv("SLURM_JOB_NUM_NODES_HET_GROUP_1", "2", 1);
	assert_int_equal(srun_get_n_nodes(), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_names_the_job_stays_and_what_shapes_a_step_goes),
		cmocka_unit_test(test_nodes_of_all_components_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
