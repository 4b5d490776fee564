/*
 * The thread that hears the end of the conversation calls stop() while the main thread may be about
 * to free what stop() is given: a server whose threads could not be started crashed there.
 */
#include "tests/unit/unit.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "daemon/worker/daemon-conn.h"

#define STOP_US 100000

struct served {
	sem_t entered;
	atomic_uint n_entered, n_left;
};

static void stop_slowly(void *arg)
{
	struct served *s = arg;

	atomic_fetch_add(&s->n_entered, 1);
	sem_post(&s->entered);
	usleep(STOP_US);
	atomic_fetch_add(&s->n_left, 1);
}

static void undo_nothing(void *arg)
{
	(void)arg;
}

static struct daemon_conn *new_link(int *peerp)
{
	struct daemon_conn_limits limits = { 0 };
	struct error err = ERROR_INIT;
	struct daemon_conn *l;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	assert_int_equal(daemon_conn_new(&l, fds[0], &limits, undo_nothing, NULL, &err), 0);
	*peerp = fds[1];
	return l;
}

/* Fails when daemon_conn_end_serving() does not wait. */
static void test_a_stop_that_is_being_called_is_waited_for(void **state)
{
	struct served s = { 0 };
	struct daemon_conn *l;
	int peer;

	(void)state;
	l = new_link(&peer);
	sem_init(&s.entered, 0, 0);
	daemon_conn_set_serving(l, stop_slowly, NULL, &s);
	close(peer);
	sem_wait(&s.entered);
	daemon_conn_end_serving(l);
	assert_int_equal(atomic_load(&s.n_left), 1);
	daemon_conn_free(l);
	sem_destroy(&s.entered);
}

/* Fails when daemon_conn_end_serving() leaves stop() where it is. */
static void test_after_the_end_nothing_is_stopped(void **state)
{
	struct served s = { 0 };
	struct daemon_conn *l;
	int peer;

	(void)state;
	l = new_link(&peer);
	sem_init(&s.entered, 0, 0);
	daemon_conn_set_serving(l, stop_slowly, NULL, &s);
	daemon_conn_end_serving(l);
	close(peer);
	for (int i = 0; i < 1000 && !daemon_conn_is_cancelled(l); i++)
		usleep(1000);
	assert_true(daemon_conn_is_cancelled(l));
	daemon_conn_free(l); /* joins the thread */
	assert_int_equal(atomic_load(&s.n_entered), 0);
	sem_destroy(&s.entered);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_stop_that_is_being_called_is_waited_for),
		cmocka_unit_test(test_after_the_end_nothing_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
