/*
 * The thread that hears the end of the conversation calls stop() while the main thread may be about
 * to free what stop() is given: a server whose threads could not be started crashed there.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "common/util/error.h"
#include "daemon/worker/ctx-internal.h"
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
	daemon_conn_set_serving(l, &(struct daemon_conn_serving){ .stop = stop_slowly }, &s);
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
	daemon_conn_set_serving(l, &(struct daemon_conn_serving){ .stop = stop_slowly }, &s);
	daemon_conn_end_serving(l);
	close(peer);
	for (int i = 0; i < 1000 && !daemon_conn_is_cancelled(l); i++)
		usleep(1000);
	assert_true(daemon_conn_is_cancelled(l));
	daemon_conn_free(l); /* joins the thread */
	assert_int_equal(atomic_load(&s.n_entered), 0);
	sem_destroy(&s.entered);
}

static bool is_read_once(void *arg)
{
	return atomic_fetch_add((atomic_int *)arg, 1) == 1;
}

/* Fails where stagingd gets a message each time, or never. */
static void test_reads_are_told_when_there_were_some(void **state)
{
	static const struct daemon_conn_serving serving = { .was_read = is_read_once,
							    .read_ms = 1 };
	atomic_int n_asked = 0;
	struct daemon_conn *l;
	char buf[256];
	ssize_t n;
	int peer;

	l = new_link(&peer);
	daemon_conn_set_serving(l, &serving, &n_asked);
	for (int i = 0; i < 10000 && atomic_load(&n_asked) < 5; i++)
		usleep(1000);
	daemon_conn_end_serving(l);
	n = recv(peer, buf, sizeof(buf), MSG_DONTWAIT);
	assert_true(n > 0 && memmem(buf, (size_t)n, "op=read", sizeof("op=read")));
	assert_int_equal(recv(peer, buf, sizeof(buf), MSG_DONTWAIT), -1);
	close(peer);
	daemon_conn_free(l);
}

/* The dataset failed without a sentence, because the first question was asked without one. */
static void test_a_question_that_fails_is_told(void **state)
{
	static const struct stage_io_ops ops = { 0 };
	struct ctx_private priv = { .ask_lock = PTHREAD_MUTEX_INITIALIZER, .tier = "ssd" };
	struct dataset dataset = { 0 };
	struct ctx ctx = { .io.ops = &ops, .ds = &dataset, .priv = &priv };
	struct error err = ERROR_INIT;
	int peer;

	priv.conn = new_link(&peer);
	assert_int_equal(shutdown(peer, SHUT_RD), 0);
	assert_int_equal(ctx_charge_io(&ctx.io, 1, 1, &err), -EPIPE);
	assert_string_equal(err.text, "ask stagingd: Broken pipe");
	daemon_conn_free(priv.conn); /* before the peer: its end would end this process */
	close(peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_stop_that_is_being_called_is_waited_for),
		cmocka_unit_test(test_after_the_end_nothing_is_stopped),
		cmocka_unit_test(test_a_question_that_fails_is_told),
		cmocka_unit_test(test_reads_are_told_when_there_were_some),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
