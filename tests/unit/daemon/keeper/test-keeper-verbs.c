/*
 * Which packets the manager takes from the user's end of the socket: those of the right size with
 * at most one descriptor beside. All others are -EPROTO, and no descriptor stays open. Fails where
 * verbs_receive() lets two in, takes credentials for them, does not look at the size, or forgets to
 * close.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/keeper-verbs.h"
#include "common/protocol/packet.h"

#define MAX_FDS 20 /* more than the keeper has room for */

/* As the manager takes one of stagingd's. */
static int verbs_receive(int sock, struct keeper_msg *msg, int *fdp)
{
	size_t n_fds = 1;

	*fdp = -1;
	return packet_receive(sock, msg, sizeof(*msg), fdp, &n_fds, MSG_DONTWAIT);
}

static int verbs_send(int sock, const struct keeper_msg *msg, const int *fds, size_t n_fds)
{
	return packet_send(sock, msg, sizeof(*msg), fds, n_fds, MSG_DONTWAIT);
}

/* The number that the next descriptor gets. */
static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void send_packet(int sock, const void *data, size_t size, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * MAX_FDS)];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds) {
		hdr.msg_control = control.buf;
		hdr.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
		for (size_t i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(&control.align) + i * sizeof(int), &sock, sizeof(int));
	}
	assert_int_equal(sendmsg(sock, &hdr, MSG_NOSIGNAL), (ssize_t)size);
}

static void test_a_packet_is_whole_and_brings_one_descriptor(void **state)
{
	enum { SIZE = sizeof(struct keeper_msg) };
	static const struct {
		size_t size, n_fds;
		int expect;
	} cases[] = {
		/* clang-format off */
		{ SIZE, 0, 1 },
		{ SIZE, 1, 1 },
		{ SIZE, 2, -EPROTO },
		{ SIZE, PACKET_MAX_FDS, -EPROTO },
		{ SIZE, MAX_FDS, -EPROTO }, /* some of them are cut off */
		{ SIZE - 1, 0, -EPROTO },
		{ SIZE - 1, 1, -EPROTO },
		{ SIZE + 1, 0, -EPROTO },
		{ SIZE + 1, 1, -EPROTO },
		{ 1, 0, -EPROTO },
		{ 0, 1, -EPROTO },
		{ 0, 0, 0 },                /* as if the other end were gone */
		/* clang-format on */
	};
	char data[SIZE + 1];

	memset(data, 'x', sizeof(data));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct keeper_msg msg;
		int pair[2], before, fd;

		assert_int_equal(conn_pair(pair), 0);
		send_packet(pair[0], data, cases[i].size, cases[i].n_fds);
		before = next_fd();
		if (verbs_receive(pair[1], &msg, &fd) != cases[i].expect)
			fail_msg("%zu bytes, %zu descriptors", cases[i].size, cases[i].n_fds);
		assert_int_equal(fd >= 0, cases[i].expect == 1 && cases[i].n_fds == 1);
		if (cases[i].expect == 1)
			assert_memory_equal(&msg, data, SIZE);
		if (fd >= 0) {
			assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
			close(fd);
		}
		assert_int_equal(next_fd(), before);
		close(pair[0]);
		close(pair[1]);
	}
}

/* Who it is comes beside a descriptor, where the socket is asked for that: it is none. */
static void test_what_else_comes_beside_a_packet_is_left_out(void **state)
{
	struct keeper_msg msg = { .verb = KEEPER_END }, got;
	int pair[2], fd;

	assert_int_equal(conn_pair(pair), 0);
	assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)), 0);
	send_packet(pair[0], &msg, sizeof(msg), 0);
	assert_int_equal(verbs_receive(pair[1], &got, &fd), 1);
	assert_int_equal(fd, -1);
	send_packet(pair[0], &msg, sizeof(msg), 1);
	assert_int_equal(verbs_receive(pair[1], &got, &fd), 1);
	assert_true(fd >= 0);
	close(fd);
	close(pair[0]);
	close(pair[1]);
}

static void test_nothing_blocks_and_the_end_is_told(void **state)
{
	struct keeper_msg msg = { .verb = KEEPER_CANCEL };
	int pair[2], fd, r;

	assert_int_equal(conn_pair(pair), 0);
	assert_int_equal(verbs_receive(pair[1], &msg, &fd), -EAGAIN);
	for (int i = 0; (r = verbs_send(pair[1], &msg, NULL, 0)) == 0; i++)
		assert_true(i < 100000);
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(verbs_send(pair[0], &msg, NULL, 0), 0);
	close(pair[0]); /* with packets that nobody has read, which is told before its own last one
			 */
	assert_int_equal(verbs_receive(pair[1], &msg, &fd), -EAGAIN);
	assert_int_equal(verbs_receive(pair[1], &msg, &fd), 1);
	assert_int_equal(verbs_receive(pair[1], &msg, &fd), 0);
	assert_int_equal(verbs_send(pair[1], &msg, NULL, 0), -EPIPE);
	assert_int_equal(verbs_receive(-1, &msg, &fd), -EBADF);
	close(pair[1]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_packet_is_whole_and_brings_one_descriptor),
		cmocka_unit_test(test_what_else_comes_beside_a_packet_is_left_out),
		cmocka_unit_test(test_nothing_blocks_and_the_end_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
