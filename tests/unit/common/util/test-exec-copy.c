/*
 * The program is /bin/sh, which the kernel can execute from memory, and a script, which it cannot.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/util/exec-copy.h"
#include "common/util/fd.h"

typedef int (*exec_fn)(const char *name, char *const *argv, char *const *envp, int fd);

enum { RAN = 7, FAILED = 100 };

/* Executes the program in a child. Returns RAN, or FAILED and the error. */
static int execute(exec_fn fn, const char *name)
{
	char *const argv[] = { (char *)name, (char *)"-c", (char *)"exit 7", NULL };
	char *const envp[] = { NULL };
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(FAILED - fn(name, argv, envp, 3));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_a_script_is_executed_by_one_of_both(void **state)
{
	_cleanup_(freep) char *script = NULL;
	int fd;

	assert_true(asprintf(&script, "%s/script", (char *)*state) > 0);
	fd = open(script, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	assert_int_equal(fd_write_all(fd, "#!/bin/sh\nexit 7\n", 17), 0);
	close(fd);
	assert_int_equal(execute(exec_copy, script), FAILED + ENOEXEC);
	assert_int_equal(execute(exec_copy_or_itself, script), RAN);
	assert_int_equal(execute(exec_copy, "/nonexistent"), FAILED + ENOENT);
	assert_int_equal(execute(exec_copy_or_itself, "/nonexistent"), FAILED + ENOENT);
}

/* The setting is that of a namespace of process ids. Returns 1 if there is none. */
static int forbid_programs_in_memory(void)
{
	int fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC);
	const bool is = write(fd, "2", 1) == 1;

	close(fd);
	return !is;
}

static int check_where_nothing_is_executed_from_memory(void)
{
	if (forbid_programs_in_memory())
		return 1;
	if (execute(exec_copy, "sh") != FAILED + EACCES)
		return 2;
	return execute(exec_copy_or_itself, "sh") == RAN ? 0 : 3;
}

/* Seen failing, where sbcast had to be a script to be executed itself. */
static void test_where_nothing_is_executed_from_memory_the_program_is_executed_itself(void **state)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(1);
		pid = fork();
		if (pid == 0)
			_exit(check_where_nothing_is_executed_from_memory());
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
		skip();
	assert_int_equal(status, 0);
}

static void test_a_program_is_executed_from_memory(void **state)
{
	assert_int_equal(execute(exec_copy, "sh"), RAN);
	assert_int_equal(execute(exec_copy_or_itself, "sh"), RAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_program_is_executed_from_memory),
		cmocka_unit_test(test_a_script_is_executed_by_one_of_both),
		cmocka_unit_test(
			test_where_nothing_is_executed_from_memory_the_program_is_executed_itself),
	};

	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
