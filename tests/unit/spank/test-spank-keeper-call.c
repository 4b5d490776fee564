#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/config/spec.h"
#include "common/protocol/kv.h"
#include "common/util/fd.h"
#include "spank/keeper-call.h"

static char program[4096], out[4096];

static void write_program(const char *dir, const char *body)
{
	_cleanup_(file_closep) FILE *f = NULL;

	snprintf(program, sizeof(program), "%s/keeper", dir);
	snprintf(out, sizeof(out), "%s/out", dir);
	unlink(program);
	unlink(out);
	f = fopen(program, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\nout=%s\n%s\n", out, body);
	assert_int_equal(fchmod(fileno(f), 0755), 0);
	keeper_call_program = program;
}

static char *read_out(void)
{
	_cleanup_(fd_closep) int fd = -1;
	char *text;
	size_t size;

	for (int i = 0; i < 400 && access(out, F_OK) < 0; i++)
		usleep(5000);
	fd = open(out, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fd_read_file(fd, 1 << 20, &text, &size), 0);
	return text;
}

static const struct keeper_call_job job = { .job_id = 4711,
					    .restart = 2,
					    .uid = 1001,
					    .gid = 1002,
					    .spec = "1:script:abc:/p/x \xff\n",
					    .node = "n1",
					    .nodelist = "n[1-2]",
					    .n_nodes = "2" };

static void test_answers(void **state)
{
	static const struct {
		const char *body;
		int expect;
		const char *text;
	} cases[] = {
		{ "printf R", 0, "" },
		{ "printf R; exec >&-; sleep 1", 0, "" },
		{ "printf 'Eit is closed'", -EIO, "it is closed" },
		{ "printf 'Etwo\\nlines'", -EIO, "two" },
		{ "printf 'Ea sentence\\033[2J'", -EIO, "a sentence" },
		{ "printf E", -EIO, "stage-keeper ended without an answer" },
		{ "exit 0", -EIO, "stage-keeper ended without an answer" },
		{ "printf X", -EIO, "stage-keeper ended without an answer" },
		{ "kill -9 $$", -EIO, "stage-keeper ended without an answer" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char why[KEEPER_CALL_WHY_SIZE] = "";
		int r;

		write_program(*state, cases[i].body);
		r = keeper_call_run(&job, NULL, why);
		if (r != cases[i].expect || strcmp(why, cases[i].text))
			fail_msg("%s: %d, %s", cases[i].body, r, why);
	}
}

static void test_a_slow_keeper_goes_on_and_a_late_answer_does_not_kill_it(void **state)
{
	char why[KEEPER_CALL_WHY_SIZE] = "";
	_cleanup_(freep) char *text = NULL;
	uint64_t start = clock_ms();

	struct keeper_call_job j = job;

	j.in_step = true; /* where it has more time to come to life */
	write_program(*state,
		      "sleep 0.7; printf R 2>/dev/null; echo lives >$out.new; mv $out.new $out");
	start = clock_ms();
	assert_int_equal(keeper_call_run(&j, NULL, why), -ETIMEDOUT);
	assert_in_range(clock_ms() - start, KEEPER_CALL_RUN_WAIT_MS, KEEPER_CALL_RUN_WAIT_MS + 150);
	text = read_out();
	assert_string_equal(text, "lives\n");
}

/* Without a run directory, which a real one has by then, and switches its timer off. Red without
 * setitimer(). */
static void test_a_keeper_that_hangs_ends_by_itself(void **state)
{
	char why[KEEPER_CALL_WHY_SIZE] = "";
	_cleanup_(freep) char *text = NULL;
	uint64_t start = clock_ms();
	pid_t pid;

	write_program(*state, "echo $$ >$out.new; mv $out.new $out; exec sleep 60");
	assert_int_equal(keeper_call_run(&job, NULL, why), -ETIMEDOUT);
	text = read_out();
	pid = atoi(text);
	assert_true(pid > 1);
	while (kill(pid, 0) == 0 && clock_ms() - start < 20000)
		usleep(5000);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

static void test_missing_and_broken_programs_are_named(void **state)
{
	char why[KEEPER_CALL_WHY_SIZE] = "";

	write_program(*state, "");
	unlink(program);
	assert_int_equal(keeper_call_run(&job, NULL, why), -ENOENT);
	assert_non_null(strstr(why, program));
	write_program(*state, "");
	assert_int_equal(truncate(program, 0), 0);
	assert_int_equal(truncate(program, 4), 0); /* neither script nor ELF */
	assert_int_equal(keeper_call_run(&job, NULL, why), -EIO);
	assert_string_equal(why, "cannot be executed");
	assert_int_equal(keeper_call_clean(1, NULL, why), 0); /* ended at once */
}

/* Red when the child keeps the effective ids of a host that is somebody else for a moment. */
static void test_a_host_that_is_just_the_user_starts_root(void **state)
{
	_cleanup_(freep) char *text = NULL;
	char why[KEEPER_CALL_WHY_SIZE] = "";
	FILE *f;
	int r;

	if (getuid() != 0)
		skip();
	write_program(*state, "");
	/* No shell: that would take the real ids by itself. */
	f = fopen(program, "w");
	assert_non_null(f);
	fprintf(f,
		"#!/usr/bin/env python3\nimport os\nopen('%s.new', 'w').write(f'{os.geteuid()} "
		"{os.getegid()}\\n')\n"
		"os.rename('%s.new', '%s')\n",
		out, out, out);
	file_closep(&f);
	assert_int_equal(chmod(*state, 0755), 0);
	assert_int_equal(setegid(1002), 0);
	assert_int_equal(seteuid(1001), 0);
	r = keeper_call_clean(1, NULL, why);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	assert_int_equal(r, 0);
	text = read_out();
	assert_string_equal(text, "0 0\n");
}

static void test_arguments(void **state)
{
	struct keeper_call_job j = job;
	char why[KEEPER_CALL_WHY_SIZE] = "";
	_cleanup_(freep) char *a = NULL, *b = NULL, *c = NULL;

	write_program(*state, "echo \"$@\" >$out; printf R");
	assert_int_equal(keeper_call_run(&j, NULL, why), 0);
	a = read_out();
	assert_string_equal(
		a, "run --job 4711 --uid 1001 --gid 1002 --restart 2 --node n1 --conf  --sluid \n");
	j.in_step = true;
	assert_int_equal(keeper_call_run(&j, "/x.conf", why), 0);
	b = read_out();
	assert_string_equal(b, "run --job 4711 --uid 1001 --gid 1002 --restart 2 "
			       "--node n1 --conf /x.conf --sluid  --step\n");
	assert_int_equal(keeper_call_clean(4711, NULL, why), 0);
	c = read_out();
	assert_string_equal(c, "clean --conf  --job 4711 --timeout 7000\n");
}

/* What a child between fork and exec must not leave to root's program. */
static void test_nothing_of_the_host_is_inherited(void **state)
{
	_cleanup_(fd_closep) int fd = open("/dev/null", O_RDONLY); /* not close-on-exec */
	char why[KEEPER_CALL_WHY_SIZE] = "";
	_cleanup_(freep) char *text = NULL;
	sigset_t set, old;

	assert_true(fd >= 0);
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, &old);
	signal(SIGUSR1, SIG_IGN);
	setenv("LD_STAGE_TEST", "1", 1);
	write_program(
		*state,
		"{ env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort | tr '\\n' ' '; "
		"echo\n"
		"pwd; umask\n"
		/* by the shell itself: dash from 0.5.12 on blocks all signals while it starts a
		   program */
		"while read -r k v; do case $k in SigBlk:|SigIgn:) echo $k$v;; esac; done "
		"</proc/$$/status\n"
		"for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -gt 9 ] || printf %s, $n; done; echo\n"
		"read -r s </proc/$$/stat; set -- ${s##*)}; echo \"ppid=$2 session=$4\"; } >$out\n"
		"printf R");
	assert_int_equal(keeper_call_run(&job, NULL, why), 0);
	signal(SIGUSR1, SIG_DFL);
	sigprocmask(SIG_SETMASK, &old, NULL);
	text = read_out();
	if (!strstr(text, "LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \n/\n0077\n"
			  "SigBlk:0000000000000000\nSigIgn:0000000000001000\n0,1,2,"))
		fail_msg("%s", text);
	assert_null(strstr(text, "LD_STAGE_TEST"));
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left to the host */
	assert_int_equal(errno, ECHILD);
	{
		int ppid = 0, session = 0;

		assert_int_equal(
			sscanf(strstr(text, "ppid="), "ppid=%d session=%d", &ppid, &session), 2);
		assert_int_not_equal(ppid, getpid());
		assert_int_not_equal(session, getsid(0));
	}
	unsetenv("LD_STAGE_TEST");
}

static void test_the_spec_arrives_sealed_and_unread(void **state)
{
	_cleanup_(kv_freep) struct kv *kv = NULL;
	_cleanup_(fd_closep) int fd = -1;
	char why[KEEPER_CALL_WHY_SIZE] = "";
	char data[65536];
	ssize_t n;

	write_program(*state,
		      "cat >$out; echo x 2>/dev/null >>/proc/$$/fd/0 && echo writable >>$out;"
		      "printf R");
	assert_int_equal(keeper_call_run(&job, NULL, why), 0);
	fd = open(out, O_RDONLY | O_CLOEXEC);
	n = read(fd, data, sizeof(data));
	assert_true(n > 0);
	assert_int_equal(kv_new_from_data(&kv, data, (size_t)n), KV_E_SUCCESS);
	assert_string_equal(kv_get(kv, SPEC_KEY_SPEC), job.spec);
	assert_string_equal(kv_get(kv, SPEC_KEY_NODE), "n1");
	assert_string_equal(kv_get(kv, SPEC_KEY_NODELIST), "n[1-2]");
	assert_string_equal(kv_get(kv, SPEC_KEY_N_NODES), "2");
	assert_string_equal(kv_get(kv, SPEC_KEY_PARTITION), "");
	assert_string_equal(kv_get(kv, SPEC_KEY_RESTART), "2");
}

static void test_too_long_a_value_is_said(void **state)
{
	_cleanup_(freep) char *value = malloc(70000);
	struct keeper_call_job j = job;
	char why[KEEPER_CALL_WHY_SIZE] = "";

	assert_non_null(value);
	memset(value, 'x', 69999);
	value[69999] = '\0';
	j.spec = value;
	write_program(*state, "printf R");
	assert_int_equal(keeper_call_run(&j, NULL, why), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_a_slow_keeper_goes_on_and_a_late_answer_does_not_kill_it),
		cmocka_unit_test(test_a_keeper_that_hangs_ends_by_itself),
		cmocka_unit_test(test_missing_and_broken_programs_are_named),
		cmocka_unit_test(test_a_host_that_is_just_the_user_starts_root),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_nothing_of_the_host_is_inherited),
		cmocka_unit_test(test_the_spec_arrives_sealed_and_unread),
		cmocka_unit_test(test_too_long_a_value_is_said),
	};

	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
