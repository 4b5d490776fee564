#include "tests/unit/spank/test-spank-fake.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/config/spec.h"
#include "common/protocol/rundir.h"
#include "common/util/fd.h"
#include "spank/keeper-call.h"
#include "spank/node.h"

#include "stage-build.h"

#define MARK STAGE_RUN_DIR "/.prolog"
#define CALLS "/run/calls" /* a line each of what the keeper was called with */
#define SPEC "1:script:0123456789abcdef:/p/a"

static void write_keeper(const char *body)
{
	FILE *f = fopen("/run/keeper", "w");

	assert_non_null(f);
	fprintf(f, "#!/bin/sh\necho \"$@\" >>" CALLS "\n%s\n", body);
	assert_int_equal(fchmod(fileno(f), 0755), 0);
	fclose(f);
	keeper_call_program = "/run/keeper";
}

static void set_up(spank_context_t context, const char *keeper)
{
	assert_int_equal(system("rm -rf /run/* " STAGE_RUN_DIR), 0);
	assert_int_equal(mkdir(STAGE_RUN_DIR, 0755), 0);
	fake_reset(context);
	fake.job_id = 4711;
	write_keeper(keeper);
	for (const char *const *name =
		     (const char *const[]){ SPEC_ENV_PROLOG, "SLURM_JOB_RESTART_COUNT",
					    "SLURMD_NODENAME", "SLURM_JOB_NODELIST",
					    "SLURM_NODELIST", NULL };
	     *name; name++)
		unsetenv(*name);
}

/* What the keeper was called with; the text is the caller's as far as the next call. */
static const char *calls(void)
{
	static char text[4096];
	int fd = open(CALLS, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	fd_closep(&fd);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void await_call(const char *what)
{
	for (int i = 0; i < 1000 && !strstr(calls(), what); i++)
		usleep(5000);
	assert_non_null(strstr(calls(), what));
}

static void make_run_dir(void)
{
	char path[4096];

	rundir_path(path, sizeof(path), fake.job_id, NULL);
	assert_int_equal(mkdir(path, 0755), 0);
}

/* Red when the prolog takes no restart count, or starts a keeper for a job that asked for nothing.
 */
static void test_the_prolog_starts_a_keeper(void **state)
{
	char expected[256];

	NEED_NODE();
	set_up(S_CTX_JOB_SCRIPT, "printf R");
	node_prolog(NULL, NULL);
	assert_string_equal(calls(), "");
	setenv(SPEC_ENV_PROLOG, SPEC, 1);
	setenv("SLURM_JOB_RESTART_COUNT", "3", 1);
	setenv("SLURMD_NODENAME", "n7", 1);
	setenv("SLURM_NODELIST", "n[7-8]", 1);
	setenv("SLURM_JOB_SLUID", "s2YDM87YNK1900", 1);
	node_prolog(NULL, "/x.conf");
	snprintf(expected, sizeof(expected),
		 "run --job 4711 --uid %u --gid %u --restart 3 --node n7 --conf /x.conf --sluid "
		 "s2YDM87YNK1900\n",
		 (unsigned)getuid(), (unsigned)getgid());
	assert_string_equal(calls(), expected);
	assert_string_equal(fake.log, "");
	assert_int_equal(access(MARK, F_OK), COMPAT_HAVE_RUN_IN_JOB ? 0 : -1);
}

/* The prolog must not fail: it would drain the node. Red without the sentence in slurmd's log. */
static void test_a_keeper_that_refuses_is_told_to_slurmd(void **state)
{
	NEED_NODE();
	set_up(S_CTX_JOB_SCRIPT, "printf 'Ethe disk is full'");
	setenv(SPEC_ENV_PROLOG, SPEC, 1);
	node_prolog(NULL, NULL);
	assert_string_equal(fake.log, "stage-data: job=4711: the disk is full\n");
}

static void test_a_broken_node_starts_none(void **state)
{
	NEED_NODE();
	set_up(S_CTX_JOB_SCRIPT, "printf R");
	setenv(SPEC_ENV_PROLOG, SPEC, 1);
	fd_closep(&(int){
		open(STAGE_RUN_DIR "/" RUNDIR_BREAKER, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) });
	node_prolog(NULL, NULL);
	assert_string_equal(calls(), "");
	assert_non_null(strstr(fake.log, "job=4711: staging is off on this node"));
}

/* Without ids nothing is begun and nothing ended: of whom? */
static void test_a_job_that_slurm_does_not_name(void **state)
{
	NEED_NODE();
	set_up(S_CTX_JOB_SCRIPT, "printf R");
	setenv(SPEC_ENV_PROLOG, SPEC, 1);
	make_run_dir();
	fake_setenv(SPEC_ENV_JOB, SPEC);
	fake.knows_nothing = true;
	node_prolog(NULL, NULL);
	node_epilog(NULL, NULL);
	node_extern_exit(NULL, NULL);
	node_step_start(NULL, NULL);
	assert_string_equal(calls(), "");
	assert_int_equal(access(MARK, F_OK), -1);
}

/* Red when it asks for a clean-up of each job that there is. */
static void test_the_epilog_cleans_what_there_is(void **state)
{
	NEED_NODE();
	set_up(S_CTX_JOB_SCRIPT, "");
	node_epilog(NULL, NULL);
	assert_string_equal(calls(), "");
	make_run_dir();
	node_epilog(NULL, NULL);
	await_call("clean --conf  --job 4711 ");
	assert_string_equal(fake.log, "");
	keeper_call_program = "/run/nowhere";
	node_epilog(NULL, NULL);
	assert_string_equal(fake.log,
			    "stage-data: job=4711: /run/nowhere: No such file or directory\n");
}

/* Red when the mark is not looked at: a signal of the user's would end the job's data. */
static void test_the_extern_step_cleans_where_no_epilog_does(void **state)
{
	NEED_NODE();
	set_up(S_CTX_REMOTE, "");
	make_run_dir();
	fake.step_id = 0;
	node_extern_exit(NULL, NULL);
	assert_string_equal(calls(), "");
	fake.step_id = SLURM_EXTERN_CONT;
	fd_closep(&(int){ open(MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) });
	node_extern_exit(NULL, NULL);
	assert_string_equal(calls(), "");
	assert_int_equal(unlink(MARK), 0);
	node_extern_exit(NULL, NULL);
	if (COMPAT_HAVE_RUN_IN_JOB)
		await_call("clean --conf  --job 4711 ");
	else
		assert_string_equal(calls(), "");
}

/* Red when a new slurmd believes in the prolog of the old one. */
static void test_slurmd_begins_with_the_reaper(void **state)
{
	NEED_NODE();
	set_up(S_CTX_SLURMD, "");
	fd_closep(&(int){ open(MARK, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) });
	node_boot("/x.conf");
	assert_int_equal(access(MARK, F_OK), -1);
	await_call("reap --conf /x.conf\n");
	keeper_call_program = "/run/nowhere";
	node_boot(NULL);
	assert_string_equal(fake.log, "stage-data: /run/nowhere: No such file or directory\n");
	fake.log[0] = '\0';
	assert_int_equal(rmdir(STAGE_RUN_DIR), 0);
	node_boot(NULL); /* nothing was ever staged here */
	assert_string_equal(fake.log, "");
}

/* Red when a step waits for what the prolog has done, or starts it twice. */
static void test_a_step_starts_what_no_prolog_did(void **state)
{
	char path[4096], expected[256], node[65] = "";

	NEED_NODE();
	set_up(S_CTX_REMOTE, "printf R");
	node_step_start(NULL, NULL); /* asked for nothing */
	fake_setenv(SPEC_ENV_JOB, SPEC);
	fake.step_id = SLURM_EXTERN_CONT;
	node_step_start(NULL, NULL);
	assert_string_equal(calls(), "");
	fake.step_id = 0;
	fake_setenv("SLURMD_NODENAME", "the-submitting-node");
	gethostname(node, sizeof(node) - 1);
	node[strcspn(node, ".")] = '\0';
	node_step_start(NULL, NULL);
	snprintf(expected, sizeof(expected),
		 "run --job 4711 --uid %u --gid %u --restart 0 --node %s --conf  --sluid  --step\n",
		 (unsigned)getuid(), (unsigned)getgid(), node);
	assert_string_equal(calls(), expected);
	assert_string_equal(node_get_start_error(), "");
	unlink(CALLS);
	make_run_dir();
	rundir_path(path, sizeof(path), fake.job_id, RUNDIR_SOCK);
	fd_closep(&(int){ open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644) });
	node_step_start(NULL, NULL);
	assert_string_equal(calls(), "");
	/* That of another user, whose job had the number. Seen failing where any socket was enough.
	 */
	assert_int_equal(chown(path, 65534, 65534), 0);
	node_step_start(NULL, NULL);
	assert_string_equal(calls(), expected);
}

static bool keeper_lives(void)
{
	return system("grep -q '^State:.[^ZX]' /proc/$(cat /run/pid)/status 2>/dev/null") == 0;
}

/* Red without the timer: in the job's cgroups it would hold up the job's end. One that is alive has
 * switched it off by the time that there is a run directory. */
static void test_a_keeper_that_hangs_in_a_step_ends(void **state)
{
	NEED_NODE();
	set_up(S_CTX_REMOTE, "echo $$ >/run/pid; exec sleep 60");
	fake_setenv(SPEC_ENV_JOB, SPEC);
	node_step_start(NULL, NULL);
	assert_non_null(strstr(fake.log, "job=4711: stage-keeper has not answered within"));
	assert_string_equal(node_get_start_error(),
			    ""); /* a task that is held may still see it come */
	assert_true(keeper_lives());
	for (int i = 0; i < 4000 && keeper_lives(); i++)
		usleep(5000);
	assert_false(keeper_lives());
}

/* The last: what it leaves is the process's. Red when the task would wait for a keeper that will
 * not come. */
static void test_why_a_step_has_no_keeper_is_kept_for_its_tasks(void **state)
{
	NEED_NODE();
	set_up(S_CTX_REMOTE, "printf 'Ethe disk is full'");
	fake_setenv(SPEC_ENV_JOB, SPEC);
	node_step_start(NULL, NULL);
	assert_string_equal(node_get_start_error(), "the disk is full");
	assert_string_equal(fake.log, "stage-data: job=4711: the disk is full\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_prolog_starts_a_keeper),
		cmocka_unit_test(test_a_keeper_that_refuses_is_told_to_slurmd),
		cmocka_unit_test(test_a_broken_node_starts_none),
		cmocka_unit_test(test_a_job_that_slurm_does_not_name),
		cmocka_unit_test(test_the_epilog_cleans_what_there_is),
		cmocka_unit_test(test_the_extern_step_cleans_where_no_epilog_does),
		cmocka_unit_test(test_slurmd_begins_with_the_reaper),
		cmocka_unit_test(test_a_step_starts_what_no_prolog_did),
		cmocka_unit_test(test_a_keeper_that_hangs_in_a_step_ends),
		cmocka_unit_test(test_why_a_step_has_no_keeper_is_kept_for_its_tasks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
