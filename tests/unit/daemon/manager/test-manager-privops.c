/*
 * Whose ends the manager remembers: those of children that it started. A keeper inherits orphans of
 * its children's children, and tells of their ends as well.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "common/protocol/packet.h"
#include "common/util/clock.h"
#include "common/util/log.h"
#include "daemon/manager/privops.h"

#define N_ORPHANS 3000
#define FIRST_ORPHAN 100000
#define N_AT_ONCE 20 /* that fit into the socket */
#define EXIT_5 (5 << 8)

static int keeper; /* the other end of the manager's socket */
static pid_t next_pid;

/* Starts what is asked for by giving out a number. */
static int answer(struct privop *a, int *out, size_t *n_outp)
{
	*n_outp = 0;
	return a->kind == PRIVOP_SPAWN ? next_pid : 0;
}

static pid_t start(pid_t pid)
{
	static const char *const argv[] = { "stage-helper", NULL };
	const struct privops_spawn spawn = { .argv = argv, .output = -1 };

	next_pid = pid;
	return privops_spawn(&spawn, NULL);
}

static void end(pid_t pid, int status)
{
	const struct privop a = { .kind = PRIVOP_EXITED, .n = { pid, status } };

	assert_int_equal(packet_send(keeper, &a, sizeof(a), NULL, 0, 0), 0);
}

static void end_orphans(pid_t first)
{
	for (int i = 0; i < N_ORPHANS; i++) {
		end(first + i, 0);
		if (i % N_AT_ONCE == 0)
			privops_hear();
	}
	privops_hear();
}

static void assert_no_exit(void)
{
	int status;
	pid_t pid;

	assert_false(privops_next_exit(&pid, &status));
}

static void test_orphans_push_out_no_childs_end(void **state)
{
	int status;
	pid_t pid;

	assert_int_equal(start(10), 10);
	assert_int_equal(start(11), 11);
	end_orphans(FIRST_ORPHAN);
	end(11, EXIT_5);
	end_orphans(FIRST_ORPHAN);
	end(10, SIGKILL);
	privops_hear();
	assert_int_equal(privops_wait(11, clock_ms() + 1000), -5);
	assert_true(privops_next_exit(&pid, &status));
	assert_int_equal(pid, 10);
	assert_int_equal(status, SIGKILL);
	assert_no_exit();
}

/* An end is of the process that was started, not of one that has its number later. */
static void test_a_number_that_comes_again(void **state)
{
	int status;
	pid_t pid;

	assert_int_equal(start(10), 10);
	end(10, EXIT_5);
	end(10, 0); /* an orphan */
	privops_hear();
	assert_int_equal(start(10), 10);
	end(10, SIGKILL);
	privops_hear();
	assert_true(privops_next_exit(&pid, &status));
	assert_int_equal(status, EXIT_5);
	assert_int_equal(privops_wait(10, clock_ms() + 1000), -EINTR);
	assert_no_exit();
}

static void test_more_children_than_can_be_remembered_are_refused(void **state)
{
	pid_t pid;
	int n = 0, status;

	while (start(10 + n) == 10 + n)
		n++;
	assert_true(n >= 256);
	for (int i = 0; i < n; i++) {
		end(10 + i, 0);
		privops_hear();
	}
	for (int i = 0; i < n; i++) {
		assert_true(privops_next_exit(&pid, &status));
		assert_int_equal(pid, 10 + i);
	}
	assert_no_exit();
	assert_int_equal(start(10), 10);
	end(10, 0);
	assert_int_equal(privops_wait(10, clock_ms() + 1000), 0);
}

/* Fails where it is remembered. */
static void test_a_child_that_gets_no_descriptors_is_nobodys(void **state)
{
	static const char *const argv[] = { "stage-helper", NULL };
	const struct privops_spawn spawn = { .argv = argv, .output = -1, .fds = { 0 }, .n_fds = 1 };

	next_pid = 10;
	assert_true(privops_spawn(&spawn, NULL) < 0); /* there is no socket to send it by */
	end(10, 0);
	privops_hear();
	assert_no_exit();
}

static unsigned n_asked;

static int time_out(struct privop *a, int *out, size_t *n_outp)
{
	*n_outp = 0;
	n_asked++;
	return -ETIMEDOUT;
}

/* Crashes where a failed write to the log is logged again. */
static void test_a_log_that_times_out_is_not_told_of_itself(void **state)
{
	privops_transport = time_out;
	log_set_writer(privops_log);
	assert_int_equal(privops_do_numbers(PRIVOP_GO, 1, 0, 0), -ETIMEDOUT);
	log_set_writer(NULL);
	privops_transport = answer;
	assert_int_equal(n_asked, 2); /* and the line */
}

static int setup(void **state)
{
	int pair[2];

	privops_transport = answer;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	keeper = fcntl(pair[1], F_DUPFD_CLOEXEC, MANAGER_FD_KEEPER + 1);
	return keeper < 0 || dup2(pair[0], MANAGER_FD_KEEPER) < 0 ? -1 : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orphans_push_out_no_childs_end),
		cmocka_unit_test(test_a_number_that_comes_again),
		cmocka_unit_test(test_more_children_than_can_be_remembered_are_refused),
		cmocka_unit_test(test_a_child_that_gets_no_descriptors_is_nobodys),
		cmocka_unit_test(test_a_log_that_times_out_is_not_told_of_itself),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
