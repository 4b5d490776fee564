#include "tests/unit/unit.h"

#include <errno.h>
#include <time.h>

#include "daemon/slurm/job-line.h"

static int print(const char *format, const slurm_job_info_t *job, char *buf, size_t size)
{
	FILE *out = fmemopen(buf, size, "w");
	int r;

	assert_non_null(out);
	r = job_line_print(out, format, job);
	fclose(out);
	return r;
}

static slurm_job_info_t make_job(void)
{
	return (slurm_job_info_t){ .job_id = 7,
				   .array_task_id = NO_VAL,
				   .num_nodes = 3,
				   .time_limit = 90,
				   .name = (char *)"a name",
				   .partition = (char *)"main" };
}

/* clang-format off */
static const struct { uint32_t state; const char *text; } states[] = {
	{ JOB_PENDING, "PD PENDING\n" },
	{ JOB_RUNNING, "R RUNNING\n" },
	{ JOB_SUSPENDED, "S SUSPENDED\n" },
	{ JOB_COMPLETE, "CD COMPLETED\n" },
	{ JOB_CANCELLED, "CA CANCELLED\n" },
	{ JOB_FAILED, "F FAILED\n" },
	{ JOB_TIMEOUT, "TO TIMEOUT\n" },
	{ JOB_NODE_FAIL, "NF NODE_FAIL\n" },
	{ JOB_PREEMPTED, "PR PREEMPTED\n" },
	{ JOB_BOOT_FAIL, "BF BOOT_FAIL\n" },
	{ JOB_DEADLINE, "DL DEADLINE\n" },
	{ JOB_OOM, "OOM OUT_OF_MEMORY\n" },
	{ JOB_COMPLETE | JOB_COMPLETING, "CG COMPLETING\n" },
	{ JOB_RUNNING | JOB_CONFIGURING, "CF CONFIGURING\n" },
	{ JOB_PENDING | JOB_REQUEUE_HOLD, "RH REQUEUE_HOLD\n" },
	{ JOB_PENDING | JOB_REQUEUE | JOB_COMPLETING, "CG COMPLETING\n" }, /* what ends counts first */
	{ 0xfe, "? ?\n" },                             /* a state to come: nothing that a reader takes for an end */
};

static const struct { uint32_t state; long began, ended, suspended, before; const char *text; } used[] = {
	{ JOB_PENDING, 100, 0, 0, 0, "0:00\n" },
	{ JOB_COMPLETE, 0, 200, 0, 0, "0:00\n" },       /* it has not begun */
	{ JOB_COMPLETE, 100, 159, 0, 0, "0:59\n" },
	{ JOB_COMPLETE, 100, 160, 0, 0, "1:00\n" },
	{ JOB_COMPLETE, 100, 3699, 0, 0, "59:59\n" },
	{ JOB_COMPLETE, 100, 3700, 0, 0, "1:00:00\n" },
	{ JOB_COMPLETE, 100, 86499, 0, 0, "23:59:59\n" },
	{ JOB_COMPLETE, 100, 86500, 0, 0, "1-00:00:00\n" },
	{ JOB_COMPLETE, 100, 50, 0, 0, "INVALID\n" },   /* the clock was set back */
	{ JOB_SUSPENDED, 100, 900, 300, 77, "1:17\n" },
	{ JOB_COMPLETE, 100, 900, 840, 5, "1:05\n" },   /* since it was resumed, and before */
};

static const struct { const char *format; int r; const char *text; } formats[] = {
	{ "%A %t", 0, "7 PD\n" },
	{ "%A|%T|%M|%l|%P|%r|%j", 0, "7|PENDING|0:00|1:30:00|main|None|a name\n" },
	{ "%L", 0, "1:30:00\n" },
	{ "%A %i %D", 0, "7 7 3\n" },
	{ "", 0, "\n" },
	{ "%", -EINVAL, "\n" },
	{ "%Z", -EINVAL, "\n" },
	{ "%%", -EINVAL, "\n" },
};
/* clang-format on */

static void test_states_are_called_as_squeue_calls_them(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		slurm_job_info_t job = { .job_state = states[i].state };
		char text[64];

		assert_int_equal(print("%t %T", &job, text, sizeof(text)), 0);
		assert_string_equal(text, states[i].text);
	}
}

static void test_the_time_that_a_job_has_used(void **state)
{
	slurm_job_info_t job = { .job_state = JOB_RUNNING, .start_time = time(NULL) - 3 * 86400 };
	char text[64];

	assert_int_equal(print("%M", &job, text, sizeof(text)), 0);
	text[4] = '\0';
	assert_string_equal(text, "3-00");
	for (size_t i = 0; i < ARRAY_SIZE(used); i++) {
		job = (slurm_job_info_t){ .job_state = used[i].state,
					  .start_time = used[i].began,
					  .end_time = used[i].ended,
					  .suspend_time = used[i].suspended,
					  .pre_sus_time = used[i].before };
		assert_int_equal(print("%M", &job, text, sizeof(text)), 0);
		assert_string_equal(text, used[i].text);
	}
}

static void test_formats(void **state)
{
	slurm_job_info_t job = make_job();
	char text[128];

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		assert_int_equal(print(formats[i].format, &job, text, sizeof(text)), formats[i].r);
		assert_string_equal(text, formats[i].text);
	}
}

/* A reason without a name here is no guess. */
static void test_reasons(void **state)
{
	slurm_job_info_t job = make_job();
	char text[64];

	job.state_reason = WAIT_HELD_USER;
	assert_int_equal(print("%r", &job, text, sizeof(text)), 0);
	assert_string_equal(text, "JobHeldUser\n");
	job.state_reason = 60000;
	assert_int_equal(print("%r", &job, text, sizeof(text)), -ENOTSUP);
	job.state_desc = (char *)"Nodes required for job are DOWN";
	assert_int_equal(print("%r", &job, text, sizeof(text)), 0);
	assert_string_equal(text, "Nodes required for job are DOWN\n");
}

static void test_limits_and_numbers(void **state)
{
	slurm_job_info_t job = make_job();
	char text[64];

	job.time_limit = INFINITE;
	print("%l", &job, text, sizeof(text));
	assert_string_equal(text, "UNLIMITED\n");
	job.time_limit = NO_VAL;
	print("%l", &job, text, sizeof(text));
	assert_string_equal(text, "NOT_SET\n");
	print("%L", &job, text, sizeof(text));
	assert_string_equal(text, "NOT_SET\n");
	job.het_job_id = 5;
	job.het_job_offset = 2;
	print("%A %i", &job, text, sizeof(text));
	assert_string_equal(text, "7 5+2\n");
	job.array_job_id = 6;
	job.array_task_id = 0;
	print("%A %i", &job, text, sizeof(text));
	assert_string_equal(text, "7 6_0\n");
	job.array_task_str = (char *)"1-3%2";
	print("%A %i", &job, text, sizeof(text));
	assert_string_equal(text, "7 6_[1-3%2]\n");
}

/* Seen failing where names were written as they are: a job of that name was another job's line. */
static void test_a_name_is_no_line(void **state)
{
	slurm_job_info_t job = make_job();
	char text[64];

	job.name = (char *)"a\n8|\xc3\xa4";
	print("%A|%j", &job, text, sizeof(text));
	assert_string_equal(text, "7|a?8|\xc3\xa4\n");
	job.name = NULL;
	print("%A|%j", &job, text, sizeof(text));
	assert_string_equal(text, "7|\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states_are_called_as_squeue_calls_them),
		cmocka_unit_test(test_the_time_that_a_job_has_used),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_limits_and_numbers),
		cmocka_unit_test(test_a_name_is_no_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
