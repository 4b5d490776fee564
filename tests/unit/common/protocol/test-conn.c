#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "common/protocol/conn.h"
#include "common/protocol/proto.h"

static void test_messages_arrive_whole(void **state)
{
	_cleanup_(kv_freep) struct kv *out = proto_new("status"), *in = NULL;
	int fds[2];

	assert_int_equal(conn_pair(fds), 0);
	kv_set(out, "names", "a,b");
	assert_int_equal(conn_send(fds[0], out), 0);
	assert_int_equal(conn_recv(fds[1], &in), 1);
	assert_string_equal(proto_get_op(in), "status");
	assert_string_equal(kv_get(in, "names"), "a,b");
	close(fds[0]);
	assert_int_equal(conn_recv(fds[1], &in), 0);
	assert_int_equal(conn_send(fds[1], out), -EPIPE); /* and no SIGPIPE */
	close(fds[1]);
}

/* Seen failing where ECONNRESET was the end: a worker that said `ready` and ended was said to have
 * died without a word. */
static void test_what_a_peer_sent_before_it_ended_with_something_unread(void **state)
{
	_cleanup_(kv_freep) struct kv *out = proto_new("ready"), *in = NULL;
	int fds[2];

	assert_int_equal(conn_pair(fds), 0);
	assert_int_equal(conn_send(fds[1], out), 0);
	assert_int_equal(conn_send(fds[0], out), 0);
	close(fds[0]);
	assert_int_equal(conn_recv(fds[1], &in), 1);
	assert_string_equal(proto_get_op(in), "ready");
	kv_freep(&in);
	in = NULL;
	assert_int_equal(conn_recv(fds[1], &in), 0);
	close(fds[1]);
}

static void test_garbage_is_eproto(void **state)
{
	static char big[KV_MAX_SIZE + 100];
	struct kv *in = NULL;
	int fds[2];

	assert_int_equal(conn_pair(fds), 0);
	assert_int_equal(send(fds[0], "x", 1, 0), 1);
	assert_int_equal(conn_recv(fds[1], &in), -EPROTO);
	assert_int_equal(send(fds[0], big, sizeof(big), 0), sizeof(big));
	assert_int_equal(conn_recv(fds[1], &in), -EPROTO);
	assert_null(in);
	close(fds[0]);
	close(fds[1]);
}

static int count_fds(void)
{
	int n = 0;

	for (int i = 0; i < 256; i++)
		n += fcntl(i, F_GETFD) >= 0;
	return n;
}

static void test_descriptors_that_nobody_asked_for_are_closed(void **state)
{
	_cleanup_(kv_freep) struct kv *out = proto_new("mounted"), *in = NULL;
	int fds[2], send_fds[3] = { 0, 1, 2 }, got[2] = { -1, -1 }, before;
	size_t n = 0;

	assert_int_equal(conn_pair(fds), 0);
	before = count_fds();
	assert_int_equal(conn_send_fds(fds[0], out, send_fds, 3), 0);
	assert_int_equal(conn_recv(fds[1], &in), -EPROTO);
	assert_int_equal(count_fds(), before);
	assert_int_equal(conn_send_fds(fds[0], out, send_fds, 3), 0);
	assert_int_equal(conn_recv_fds(fds[1], &in, got, 2, &n), -EPROTO);
	assert_int_equal(count_fds(), before);
	assert_int_equal(conn_send_fds(fds[0], out, send_fds, 2), 0);
	assert_int_equal(conn_recv_fds(fds[1], &in, got, 2, &n), 1);
	assert_int_equal(n, 2);
	assert_true(fcntl(got[0], F_GETFD) & FD_CLOEXEC);
	close(got[0]);
	close(got[1]);
	close(fds[0]);
	close(fds[1]);
}

static void test_listen_and_connect(void **state)
{
	_cleanup_(freep) char *path = NULL;
	struct error err = ERROR_INIT;
	uid_t uid;
	pid_t pid;
	int l, c;

	assert_true(asprintf(&path, "%s/sock", (char *)*state) > 0);
	assert_int_equal(conn_connect(path, &err), -ENOENT);
	l = conn_listen(path, &err);
	assert_true(l >= 0);
	c = conn_connect(path, &err);
	assert_true(c >= 0);
	assert_int_equal(conn_get_peer(c, &uid, &pid), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(pid, getpid());
	close(l);
	close(c);
	assert_int_equal(conn_connect(path, &err), -ECONNREFUSED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages_arrive_whole),
		cmocka_unit_test(test_what_a_peer_sent_before_it_ended_with_something_unread),
		cmocka_unit_test(test_garbage_is_eproto),
		cmocka_unit_test(test_descriptors_that_nobody_asked_for_are_closed),
		cmocka_unit_test_setup_teardown(test_listen_and_connect, unit_scratch_setup,
						unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
