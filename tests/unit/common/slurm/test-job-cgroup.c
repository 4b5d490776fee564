/*
 * Where a job's directory is found in cgroup v2, whatever Slurm calls it. The directories are plain
 * ones here, and a process with the title of a step daemon stands for one.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/slurm/job-cgroup.h"
#include "common/protocol/sluid.h"
#include "common/util/mountinfo.h"

#define OURS "s2YDM87YNK1900"
#define ANOTHERS "s2YDM87YNK1901"

static const char *top; /* of cgroup v2 */

int __wrap_mountinfo_find_first(struct mountinfo_query *queries, size_t n);

int __wrap_mountinfo_find_first(struct mountinfo_query *queries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snprintf(queries[i].target, sizeof(queries[i].target), "%s",
			 queries[i].option ? "" : top);
	return 0;
}

/* Makes the tree of cgroups again by that command, which runs in its root. */
static void make(const char *command)
{
	_cleanup_(freep) char *text = NULL;

	assert_true(asprintf(&text, "rm -rf %s/*.slice && cd %s && mkdir -p user.slice && %s", top,
			     top, command) >= 0);
	assert_int_equal(system(text), 0);
}

/* expect: below top; NULL: -ENOENT */
static void assert_found(const char *sluid, const char *expect)
{
	const struct job_cgroup_job job = { 1001, 7, sluid };
	char dir[PATH_MAX];
	int r = job_cgroup_find("memory", &job, dir, sizeof(dir));

	assert_int_equal(r, expect ? 0 : -ENOENT);
	if (expect)
		assert_string_equal(dir + strlen(top) + 1, expect);
}

static void test_a_group_is_found_by_the_number_or_the_sluid(void **state)
{
	make("mkdir -p system.slice/slurmstepd.scope/system system.slice/slurmstepd.scope/job_70");
	assert_found(OURS, NULL);
	assert_found(NULL, NULL);
	make("mkdir -p system.slice/n1_slurmstepd.scope/job_7");
	assert_found(OURS, "system.slice/n1_slurmstepd.scope/job_7"); /* CgroupJobIdPaths=yes */
	assert_found("", "system.slice/n1_slurmstepd.scope/job_7");
	make("mkdir -p system.slice/n1_slurmstepd.scope/" OURS
	     " system.slice/n1_slurmstepd.scope/" ANOTHERS);
	assert_found(OURS, "system.slice/n1_slurmstepd.scope/" OURS);
	make("mkdir -p system.slice site.slice/slurmstepd.scope/" OURS);
	assert_found(OURS, "site.slice/slurmstepd.scope/" OURS); /* CgroupSlice=site.slice */
}

static void test_where_nothing_is_slurms_no_group_will_come(void **state)
{
	const struct job_cgroup_job job = { 1001, 7, OURS };
	char dir[PATH_MAX];

	make("mkdir -p system.slice/ssh.service");
	assert_int_equal(job_cgroup_find("memory", &job, dir, sizeof(dir)), -ENODEV);
}

static pid_t start_step_daemon(void)
{
	int fds[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		execl("/bin/sleep", "slurmstepd: [7.batch]", "600", (char *)NULL);
		_exit(1);
	}
	assert_true(pid > 0);
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 0); /* it has that title */
	close(fds[0]);
	return pid;
}

/* stagectl doctor and stagingd do not know the SLUID. */
static void test_without_the_sluid_the_step_daemon_tells(void **state)
{
	_cleanup_(freep) char *command = NULL;
	const pid_t pid = start_step_daemon();
	const struct job_cgroup_job job = { 1001, 7, NULL };

	assert_true(asprintf(&command,
			     "mkdir -p system.slice/slurmstepd.scope && cd "
			     "system.slice/slurmstepd.scope && "
			     "mkdir -p " ANOTHERS "/step_0/slurm " OURS "/step_batch/slurm " OURS
			     "/step_batch/user && "
			     "echo %d >" ANOTHERS "/step_0/slurm/cgroup.procs; echo %d >" OURS
			     "/step_batch/slurm/cgroup.procs",
			     getpid(), pid) >= 0);
	make(command);
	assert_found(NULL, "system.slice/slurmstepd.scope/" OURS);
	assert_int_equal(job_cgroup_is_populated(&job), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_found(NULL, NULL);
}

static void test_what_a_sluid_looks_like(void **state)
{
	assert_true(sluid_is_valid(OURS));
	assert_false(sluid_is_valid("system"));
	assert_false(sluid_is_valid("job_7"));
	assert_false(sluid_is_valid(OURS "0"));
	assert_false(sluid_is_valid("s2YDM87YNK190/"));
	assert_false(sluid_is_valid("s2YDM87YNK190."));
	assert_false(sluid_is_valid(""));
}

static int setup(void **state)
{
	int r = unit_scratch_setup(state);

	top = *state;
	return r;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_group_is_found_by_the_number_or_the_sluid),
		cmocka_unit_test(test_where_nothing_is_slurms_no_group_will_come),
		cmocka_unit_test(test_without_the_sluid_the_step_daemon_tells),
		cmocka_unit_test(test_what_a_sluid_looks_like),
	};

	return cmocka_run_group_tests(tests, setup, unit_scratch_teardown);
}
