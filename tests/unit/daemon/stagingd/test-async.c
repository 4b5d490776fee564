/* What is done in a child, and what is told of one that dies. */
#include "daemon/stagingd/async.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "daemon/stagingd/loop.h"
#include "tests/unit/unit.h"

static struct loop *loop;
static struct error told;
static int result;

static void on_done(void *arg, int r, const struct error *err)
{
	result = r;
	told = *err;
}

static int succeed(void *arg, struct error *err)
{
	return arg == &result ? 0 : -EINVAL;
}

static int fail_so(void *arg, struct error *err)
{
	return error_set(err, ENOSPC, "no room");
}

static int die(void *arg, struct error *err)
{
	raise(SIGKILL);
	return 0;
}

static int leave(void *arg, struct error *err)
{
	_exit(3);
}

static int hang(void *arg, struct error *err)
{
	pause();
	return 0;
}

static void on_signal(void *arg, int sig)
{
}

/* A call that is late goes when its child has gone. */
static void on_tick(void *arg)
{
	siginfo_t info;

	if (result <= 0 && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		loop_stop(loop);
	else
		loop_timer_set(loop, arg, 5);
}

static void expect(int (*fn)(void *arg, struct error *err), uint64_t timeout_ms, int r,
		   const char *text)
{
	struct loop_timer tick;
	struct async *c;

	result = 1;
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(loop_catch_signals(loop, on_signal, NULL), 0);
	assert_int_equal(async_start(&c, loop, fn, &result, timeout_ms, on_done, NULL), 0);
	loop_timer_init(&tick, on_tick, &tick);
	loop_timer_set(loop, &tick, 5);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(result, r);
	assert_string_equal(told.text, text);
	loop_free(loop);
}

static void test_what_it_came_to_is_told(void **state)
{
	expect(succeed, 60000, 0, "");
	expect(fail_so, 60000, -ENOSPC, "no room");
}

/* Seen failing with the signal's number alone. */
static void test_how_it_died_is_told_by_name(void **state)
{
	expect(die, 60000, -ECHILD, "the helper process was ended by signal 9 (Killed)");
	expect(leave, 60000, -ECHILD, "the helper process ended without a word");
}

static void test_who_hangs_is_waited_for_no_longer(void **state)
{
	expect(hang, 20, -ETIMEDOUT, "not done in time; the file system may hang");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_it_came_to_is_told),
		cmocka_unit_test(test_how_it_died_is_told_by_name),
		cmocka_unit_test(test_who_hangs_is_waited_for_no_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
