/*
 * Packets on a socket. The input has two bytes of size, one byte for the number of descriptors that
 * are sent and expected, and then the content.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "common/protocol/conn.h"

#define MAX_PACKETS 8

/* What conn.c says must be what kv.c says of the same bytes. */
static void check_packet(int fd, const uint8_t *data, size_t size, size_t n_sent, size_t n_wanted)
{
	_cleanup_(kv_freep) struct kv *kv = NULL, *expected = NULL;
	int fds[CONN_MAX_FDS], before = fuzz_count_fds(), r;
	size_t n = 0;

	r = conn_recv_fds(fd, &kv, n_wanted ? fds : NULL, n_wanted, &n);
	if (r == 1) {
		FUZZ_CHECK(n == n_sent && n <= n_wanted);
		for (size_t i = 0; i < n; i++) {
			FUZZ_CHECK(fcntl(fds[i], F_GETFD) == FD_CLOEXEC);
			close(fds[i]);
		}
	}
	FUZZ_CHECK(fuzz_count_fds() == before);
	if (size == 0 && n_sent == 0)
		FUZZ_CHECK(r == 0);
	else if (n_sent > n_wanted || kv_new_from_data(&expected, data, size) != 0)
		FUZZ_CHECK(r == -EPROTO && !kv);
	else
		FUZZ_CHECK(r == 1 && kv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t wanted[] = { 0, 0, 1, CONN_MAX_FDS };
	static int pair[2] = { -1, -1 }; /* what is sent is taken at once: nothing is left */
	const uint8_t *end = data + size;

	if (pair[0] < 0)
		FUZZ_CHECK(conn_pair(pair) == 0);
	for (int i = 0; i < MAX_PACKETS && end - data >= 3; i++) {
		size_t n = (size_t)data[0] << 8 | data[1], n_fds = data[2] % 40;
		size_t n_wanted = wanted[data[2] >> 6];

		data += 3;
		n = n < (size_t)(end - data) ? n : (size_t)(end - data);
		if (fuzz_send(pair[0], data, n, n_fds) == 0)
			check_packet(pair[1], data, n, n_fds, n_wanted);
		data += n;
	}
	return 0;
}
