#include "tests/unit/spank/test-spank-fake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/config/spec.h"
#include "common/protocol/rundir.h"
#include "common/util/fd.h"
#include "spank/wait-ready.h"
#include "spank/step-env.h"
#include "spank/keeper-call.h"
#include "spank/node.h"
#include "spank/step.h"

#define BATCH SLURM_BATCH_SCRIPT
#define SPEC_SCRIPT "1:script:0123456789abcdef:/p/a"
#define SPEC_TASKS "1:tasks:0123456789abcdef:/p/a"
#define SPEC_NO "1:no:0123456789abcdef:/p/a"

#define S CONF_WAIT_SCRIPT
#define T CONF_WAIT_TASKS
#define N CONF_WAIT_NO

static void test_who_is_held(void **state)
{
	static const struct {
		struct wait_ready_facts f;
		enum wait_ready expect;
	} cases[] = {
		{ { S, false, BATCH, 1, false, false, "/x/job.sh" }, WAIT_READY_NODE },
		{ { S, false, BATCH, 3, false, false, "/x/job.sh" }, WAIT_READY_JOB },
		{ { T, false, BATCH, 3, false, false, "/x/job.sh" }, WAIT_READY_NONE },
		{ { N, false, BATCH, 3, false, false, "/x/job.sh" }, WAIT_READY_NONE },
		/* a batch script is held whatever it is called */
		{ { S, false, BATCH, 1, false, false, "/x/stagectl" }, WAIT_READY_NODE },
		/* steps of a script that was held, of one that wasn't, and without one */
		{ { S, false, 0, 3, true, false, "train" }, WAIT_READY_NONE },
		{ { S, false, 0, 3, false, false, "train" }, WAIT_READY_NODE },
		{ { T, false, 7, 3, false, false, "train" }, WAIT_READY_NODE },
		{ { N, false, 0, 3, false, false, "train" }, WAIT_READY_NONE },
		/* --stage-wait given to the inner srun */
		{ { S, true, 0, 3, true, false, "train" }, WAIT_READY_NODE },
		{ { T, true, 0, 3, true, false, "train" }, WAIT_READY_NODE },
		{ { N, true, 0, 3, false, false, "train" }, WAIT_READY_NONE },
		/* never */
		{ { T, false, 0, 3, false, true, "bash" }, WAIT_READY_NONE },
		{ { S, false, SLURM_INTERACTIVE_STEP, 1, false, false, "bash" }, WAIT_READY_NONE },
		{ { T, false, SLURM_EXTERN_CONT, 1, false, false, "sleep" }, WAIT_READY_NONE },
		{ { T, false, 0, 3, false, false, "stagectl" }, WAIT_READY_NONE },
		{ { T, false, 0, 3, false, false, "/usr/bin/stagectl" }, WAIT_READY_NONE },
		{ { T, false, 0, 3, false, false, "stagectl.sh" }, WAIT_READY_NODE },
		{ { T, false, 0, 3, false, false, NULL }, WAIT_READY_NODE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (wait_ready_decide(&cases[i].f) != cases[i].expect)
			fail_msg("case %zu: %d", i, wait_ready_decide(&cases[i].f));
}

static void test_wait_words(void **state)
{
	enum conf_wait w;

	assert_int_equal(wait_ready_from_string("script", &w), 0);
	assert_int_equal(w, CONF_WAIT_SCRIPT);
	assert_int_equal(wait_ready_from_string("tasks", &w), 0);
	assert_int_equal(wait_ready_from_string("no", &w), 0);
	assert_int_equal(w, CONF_WAIT_NO);
	assert_int_equal(wait_ready_from_string("No", &w), -EINVAL);
	assert_int_equal(wait_ready_from_string("", &w), -EINVAL);
}

/* --- a node of our own: /run is a fresh tmpfs ---------------------------------------------- */

static char job_dir[4096];

static void write_text(const char *name, const char *text)
{
	char path[4200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", job_dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void make_dir(const char *name)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", job_dir, name);
	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
}

static void node_setup(const char *spec, uint32_t step_id)
{
	char cmd[10000];

	fake_reset(S_CTX_REMOTE);
	fake.step_id = step_id;
	if (spec)
		fake_setenv(SPEC_ENV_JOB, spec);
	fake_setenv("SLURMD_NODENAME", "n7");
	rundir_path(job_dir, sizeof(job_dir), fake.job_id, NULL);
	snprintf(cmd, sizeof(cmd), "rm -rf %s && mkdir -p %s", job_dir, job_dir);
	assert_int_equal(system(cmd), 0);
}

static void write_stagectl(const char *body)
{
	static char path[4200];

	write_text("stagectl", "");
	snprintf(path, sizeof(path), "%s/stagectl", job_dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\n%s\n", body);
	assert_int_equal(fchmod(fileno(f), 0755), 0);
	fclose(f);
	wait_ready_program = path;
}

/* Runs wait_ready_task() as a task would; its exit status (0: it may begin), its stderr in text. */
static int run_task(char *text, size_t size)
{
	int fds[2], status;
	ssize_t n, all = 0;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		wait_ready_task(NULL);
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + all, size - 1 - (size_t)all)) > 0)
		all += n;
	text[all] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void test_a_task_begins_when_stagectl_says_so(void **state)
{
	char text[4096];

	NEED_NODE();
	node_setup(SPEC_SCRIPT, BATCH);
	write_text(RUNDIR_SOCK, "");
	fake_setenv("SLURM_JOB_NUM_NODES", "2");
	fake_setenv("MARK", "env");
	write_stagectl("read x && exit 9; echo \"$@ $MARK\"; exit 0"); /* its stdin is empty */
	assert_int_equal(run_task(text, sizeof(text)), 0);
	assert_string_equal(text, "wait --hold --all-nodes env\n"); /* stdout is the task's */
}

static void test_a_failure_ends_the_task(void **state)
{
	static const char *const bodies[] = { "exit 1", "exit 124", "kill -9 $$" };
	char text[4096];

	NEED_NODE();
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		node_setup(SPEC_TASKS, 0);
		write_text(RUNDIR_SOCK, "");
		write_stagectl(bodies[i]);
		assert_int_equal(run_task(text, sizeof(text)), 1);
		if (i == 2)
			assert_string_equal(text, "stage-data: cannot wait for the datasets on n7: "
						  "stagectl was ended by signal 9 (Killed)\n");
	}
	wait_ready_program = "/nowhere/stagectl";
	assert_int_equal(run_task(text, sizeof(text)), 1);
	assert_string_equal(text, "stage-data: /nowhere/stagectl: No such file or directory\n");
}

static void test_a_start_that_failed_is_said(void **state)
{
	char text[4096];

	NEED_NODE();
	node_setup(SPEC_SCRIPT, BATCH);
	write_text(RUNDIR_FAILED, "needs a tmpfs\nsecond line\n");
	assert_int_equal(run_task(text, sizeof(text)), 1);
	assert_string_equal(text, "stage-data: staging failed on n7: needs a tmpfs\n");
	node_setup(SPEC_NO, BATCH); /* nobody is held: the script finds out by stagectl */
	write_text(RUNDIR_FAILED, "needs a tmpfs\n");
	assert_int_equal(run_task(text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

/* Seen failing where a task waits for each keeper as long as for one that may never begin. */
static void test_a_keeper_whose_configuration_is_slow_is_waited_for(void **state)
{
	char text[4096], path[4300];
	pid_t pid;

	NEED_NODE();
	node_setup(SPEC_TASKS, 0);
	write_text(RUNDIR_STATE, "");
	write_stagectl("exit 0");
	snprintf(path, sizeof(path), "%s/%s", job_dir, RUNDIR_SOCK);
	pid = fork();
	if (pid == 0) {
		usleep(6000000);
		_exit(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0);
	}
	assert_int_equal(run_task(text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_jobs_without_the_option_pass(void **state)
{
	char text[4096];

	NEED_NODE();
	node_setup(NULL, 0);
	assert_int_equal(rmdir(job_dir), 0);
	wait_ready_program = "/nowhere/stagectl";
	assert_int_equal(run_task(text, sizeof(text)), 0);
	assert_string_equal(text, "");
}

static void test_signals_end_the_wait_at_once(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT };
	char path[4300];

	NEED_NODE();
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		uint64_t start;
		sigset_t all;
		int status;
		pid_t pid;

		node_setup(SPEC_TASKS, 0);
		write_text(RUNDIR_SOCK, "");
		write_stagectl("trap 'touch ${0%/*}/gone; exit' TERM; touch ${0%/*}/waits;"
			       "while :; do sleep 0.05; done");
		pid = fork();
		if (pid == 0) {
			sigfillset(&all); /* as slurmstepd may leave them */
			sigprocmask(SIG_BLOCK, &all, NULL);
			signal(signals[i], SIG_IGN);
			wait_ready_task(NULL);
			_exit(0);
		}
		snprintf(path, sizeof(path), "%s/waits", job_dir);
		for (int k = 0; k < 400 && access(path, F_OK) < 0; k++)
			usleep(5000);
		start = clock_ms();
		assert_int_equal(kill(pid, signals[i]), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
		assert_in_range(clock_ms() - start, 0, 200);
		snprintf(path, sizeof(path), "%s/gone", job_dir); /* and stagectl with it */
		for (int k = 0; k < 400 && access(path, F_OK) < 0; k++)
			usleep(5000);
		assert_int_equal(access(path, F_OK), 0);
	}
}

static void test_a_host_that_ignores_the_end_of_children_changes_nothing(void **state)
{
	int status;
	pid_t pid;

	NEED_NODE();
	node_setup(SPEC_TASKS, 0);
	write_text(RUNDIR_SOCK, "");
	write_stagectl("exit 0");
	pid = fork();
	if (pid == 0) {
		signal(SIGCHLD, SIG_IGN);
		wait_ready_task(NULL);
		_exit(signal(SIGCHLD, SIG_DFL) == SIG_IGN ? 0 : 9);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* --- the environment ----------------------------------------------------------------------- */

static void test_the_daemons_variables_are_copied(void **state)
{
	NEED_NODE();
	node_setup(SPEC_SCRIPT, BATCH);
	make_dir("t");
	make_dir("t/.stage");
	write_text(RUNDIR_ENV,
		   "STAGE_DATA_DIR=/d\nSTAGE_DATA_PATH_A=/d/a=b\nLD_PRELOAD=/evil\n"
		   "APPTAINER_BIND=/d\nPYXIS_CONTAINER_MOUNTS=/d:/d\nno line\nPATH=/evil\n");
	fake_setenv("APPTAINER_BIND", "/mine");
	fake_setenv("PYXIS_CONTAINER_MOUNTS", "/a:/b");
	step_env_set(NULL);
	assert_string_equal(fake_getenv("STAGE_DATA_DIR"), "/d");
	assert_string_equal(fake_getenv("STAGE_DATA_PATH_A"), "/d/a=b");
	assert_string_equal(fake_getenv("APPTAINER_BIND"), "/mine,/d");
	assert_string_equal(fake_getenv("PYXIS_CONTAINER_MOUNTS"), "/a:/b,/d:/d");
	assert_string_equal(fake_getenv(STEP_ENV_HELD), "1");
	assert_null(fake_getenv("LD_PRELOAD"));
	assert_null(fake_getenv("PATH"));
	step_env_set(NULL); /* as an inner step, which inherits */
	assert_string_equal(fake_getenv("APPTAINER_BIND"), "/mine,/d");
}

/* It was looked for in the job's own value, for ever. */
static void test_an_empty_list_of_mounts_adds_nothing(void **state)
{
	NEED_NODE();
	node_setup(SPEC_SCRIPT, BATCH);
	make_dir("t");
	make_dir("t/.stage");
	write_text(RUNDIR_ENV, "APPTAINER_BIND=\n");
	fake_setenv("APPTAINER_BIND", "/mine");
	step_env_set(NULL);
	assert_string_equal(fake_getenv("APPTAINER_BIND"), "/mine");
}

/* Fails where a mount counts as there by a part of another one. */
static void test_a_mount_is_added_once(void **state)
{
	static const struct {
		const char *old, *ours, *expect;
	} cases[] = {
		{ "", "/d", "/d" },	     { "/a", "/d", "/a,/d" },
		{ "/d", "/d", "/d" },	     { "/a,/d", "/d", "/a,/d" },
		{ "/d,/a", "/d", "/d,/a" },  { "/a,/d,/b", "/d", "/a,/d,/b" },
		{ "/dd", "/d", "/dd,/d" },   { "/d:/x", "/d", "/d:/x,/d" },
		{ "/a/d", "/d", "/a/d,/d" }, { "/a/d,/dd,/d", "/d", "/a/d,/dd,/d" },
	};
	char path[4300], line[64];

	NEED_NODE();
	node_setup(SPEC_TASKS, 0);
	make_dir("t");
	make_dir("t/.stage");
	snprintf(path, sizeof(path), "%s/%s", job_dir, RUNDIR_ENV);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(line, sizeof(line), "SINGULARITY_BINDPATH=%s\n", cases[i].ours);
		write_text(RUNDIR_ENV, line);
		fake_setenv("SINGULARITY_BINDPATH", cases[i].old);
		assert_int_equal(step_env_copy(NULL, path), 0);
		assert_string_equal(fake_getenv("SINGULARITY_BINDPATH"), cases[i].expect);
	}
}

/* Fails where the search for the next one ends at a name that is too long. */
static void test_all_variables_are_dropped_but_what_is_too_long(void **state)
{
	char name[300] = "STAGE_DATA_";

	fake_reset(S_CTX_REMOTE);
	memset(name + strlen(name), 'A', sizeof(name) - strlen(name) - 1);
	fake_setenv(name, "1");
	fake_setenv("STAGE_DATA_SOCKET", "/s");
	fake_setenv("STAGE", "mine");
	fake_setenv("STAGE_DATA_PATH_A", "/d/a");
	fake.knows_nothing = true;
	step_env_drop(NULL);
	assert_non_null(fake_getenv("STAGE_DATA_SOCKET"));
	fake.knows_nothing = false;
	step_env_drop(NULL);
	assert_null(fake_getenv("STAGE_DATA_SOCKET"));
	assert_null(fake_getenv("STAGE_DATA_PATH_A"));
	assert_string_equal(fake_getenv("STAGE"), "mine");
	assert_string_equal(fake_getenv(name), "1");
}

/* From the client: `/run/stage-data/NOT-STAGED-ON-THIS-NODE/...`. A slow daemon has not written its
 * file yet. */
static void test_variables_of_the_client_are_replaced(void **state)
{
	char path[4300];

	NEED_NODE();
	node_setup(SPEC_NO, BATCH);
	fake_setenv("STAGE_DATA_DIR", RUNDIR_NOT_STAGED);
	fake_setenv("STAGE_DATA_PATH_A", RUNDIR_NOT_STAGED "/a");
	fake_setenv("STAGE_DATA_LIST_A", RUNDIR_NOT_STAGED "/list.a");
	fake_setenv("STAGE_DATA_PATH_B", RUNDIR_NOT_STAGED "-mine/b");
	step_env_set(NULL);
	snprintf(path, sizeof(path), "%s/" RUNDIR_DATA, job_dir);
	assert_string_equal(fake_getenv("STAGE_DATA_DIR"), path);
	snprintf(path, sizeof(path), "%s/" RUNDIR_DATA "/a", job_dir);
	assert_string_equal(fake_getenv("STAGE_DATA_PATH_A"), path);
	snprintf(path, sizeof(path), "%s/" RUNDIR_PRIVATE "/list.a", job_dir);
	assert_string_equal(fake_getenv("STAGE_DATA_LIST_A"), path);
	assert_string_equal(fake_getenv("STAGE_DATA_PATH_B"), RUNDIR_NOT_STAGED "-mine/b");
	write_text(RUNDIR_FAILED, "x");
	fake_setenv("STAGE_DATA_PATH_A", RUNDIR_NOT_STAGED "/a");
	step_env_set(NULL);
	assert_string_equal(fake_getenv("STAGE_DATA_PATH_A"), RUNDIR_NOT_STAGED "/a");
}

static void test_only_a_held_script_is_marked(void **state)
{
	static const struct {
		const char *spec;
		uint32_t step_id;
		bool marked;
	} cases[] = {
		{ SPEC_SCRIPT, BATCH, true },
		{ SPEC_TASKS, BATCH, false },
		{ SPEC_NO, BATCH, false },
		{ SPEC_SCRIPT, 0, false },
	};

	NEED_NODE();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		node_setup(cases[i].spec, cases[i].step_id);
		write_text(RUNDIR_FAILED, "x");
		step_env_set(NULL);
		assert_int_equal(fake_getenv(STEP_ENV_HELD) != NULL, cases[i].marked);
	}
}

static void test_a_slow_daemon_is_not_waited_for_long(void **state)
{
	uint64_t start;

	NEED_NODE();
	node_setup(SPEC_TASKS, 0);
	start = clock_ms();
	step_env_set(NULL);
	assert_in_range(clock_ms() - start, 1900, 2300);
	assert_non_null(fake_getenv("STAGE_DATA_DIR")); /* fixed from the start */
	assert_non_null(strstr(fake_getenv("STAGE_DATA_SOCKET"), "/sock"));
}

/* A zombie is none: init takes it away when it gets to it. */
static bool is_running(int pid)
{
	char path[32], text[512] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	end = fgets(text, sizeof(text), f) ? strrchr(text, ')') : NULL;
	fclose(f);
	return end && strncmp(end, ") Z", 3) != 0;
}

/* Nobody would end it: an epilog does nothing for a job without a run directory. Fails when the
 * prolog leaves it behind. */
static void test_a_keeper_that_is_late_for_the_prolog_ends(void **state)
{
	static const char script[] = "#!/bin/sh\necho $$ >/run/pid\nexec sleep 60\n";
	FILE *f;
	int pid;

	NEED_NODE();
	node_setup(NULL, 0);
	assert_int_equal(rmdir(job_dir), 0);
	f = fopen("/run/keeper", "we");
	assert_non_null(f);
	fputs(script, f);
	fchmod(fileno(f), 0755);
	fclose(f);
	keeper_call_program = "/run/keeper";
	setenv(SPEC_ENV_PROLOG, SPEC_TASKS, 1);
	node_prolog(NULL, NULL);
	unsetenv(SPEC_ENV_PROLOG);
	f = fopen("/run/pid", "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%d", &pid), 1);
	fclose(f);
	for (int i = 0; i < 2000 && is_running(pid); i++)
		usleep(5000);
	assert_false(is_running(pid));
}

static void test_traps_in_place_of_the_file_are_left_alone(void **state)
{
	char path[4300];

	NEED_NODE();
	node_setup(SPEC_TASKS, 0);
	make_dir("t");
	make_dir("t/.stage");
	snprintf(path, sizeof(path), "%s/%s", job_dir, RUNDIR_ENV);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(step_env_copy(NULL, path), -EINVAL);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(step_env_copy(NULL, path), -ELOOP);
	assert_int_equal(unlink(path), 0);
	write_text(RUNDIR_ENV, "");
	assert_int_equal(truncate(path, 1 << 20), 0);
	assert_int_equal(step_env_copy(NULL, path), -EFBIG);
	/* Another user's, whose job had the number. Seen failing where its owner was not looked at.
	 */
	write_text(RUNDIR_ENV, "STAGE_DATA_PATH_X=/his\n");
	assert_int_equal(step_env_copy(NULL, path), 0);
	fake_setenv("STAGE_DATA_PATH_X", "/mine");
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(step_env_copy(NULL, path), -EPERM);
	assert_string_equal(fake_getenv("STAGE_DATA_PATH_X"), "/mine");
}

static void test_components_do_not_take_each_others_datasets(void **state)
{
	_cleanup_(step_freep) struct step *step = NULL;

	NEED_NODE();
	node_setup(SPEC_SCRIPT, 0);
	fake_setenv("SLURM_HET_SIZE", "2");
	fake_setenv("SLURM_JOB_ID", "17"); /* the first component */
	fake_setenv("STAGE_DATA_PATH_A", "/x");
	fake_setenv("STAGE_DATA_DIR", "/x");
	assert_int_equal(step_new(&step, NULL), 0); /* has a run directory of its own */
	assert_null(step->spec);
	assert_int_equal(rmdir(job_dir), 0);
	step_free(steal_ptr(step));
	assert_int_equal(step_new(&step, NULL), -EXDEV);
	step_env_set(NULL);
	assert_null(fake_getenv("STAGE_DATA_PATH_A"));
	assert_null(fake_getenv("STAGE_DATA_DIR"));
	assert_non_null(fake_getenv("SLURM_JOB_ID"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_is_held),
		cmocka_unit_test(test_wait_words),
		cmocka_unit_test(test_a_task_begins_when_stagectl_says_so),
		cmocka_unit_test(test_a_failure_ends_the_task),
		cmocka_unit_test(test_a_start_that_failed_is_said),
		cmocka_unit_test(test_a_keeper_whose_configuration_is_slow_is_waited_for),
		cmocka_unit_test(test_jobs_without_the_option_pass),
		cmocka_unit_test(test_signals_end_the_wait_at_once),
		cmocka_unit_test(test_a_host_that_ignores_the_end_of_children_changes_nothing),
		cmocka_unit_test(test_the_daemons_variables_are_copied),
		cmocka_unit_test(test_an_empty_list_of_mounts_adds_nothing),
		cmocka_unit_test(test_a_mount_is_added_once),
		cmocka_unit_test(test_all_variables_are_dropped_but_what_is_too_long),
		cmocka_unit_test(test_variables_of_the_client_are_replaced),
		cmocka_unit_test(test_only_a_held_script_is_marked),
		cmocka_unit_test(test_a_slow_daemon_is_not_waited_for_long),
		cmocka_unit_test(test_a_keeper_that_is_late_for_the_prolog_ends),
		cmocka_unit_test(test_traps_in_place_of_the_file_are_left_alone),
		cmocka_unit_test(test_components_do_not_take_each_others_datasets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
