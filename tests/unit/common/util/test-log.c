#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/log.h"

static void fill(int fd)
{
	static const char zeros[4096];

	while (send(fd, zeros, sizeof(zeros), MSG_DONTWAIT) > 0)
		;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
		while (write(fd, zeros, sizeof(zeros)) > 0)
			;
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
}

/* Returns whether the last bytes that are read are those of text. */
static bool is_read(int fd, const char *text)
{
	char buf[1 << 16] = "";
	ssize_t n, last = 0;

	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	while ((n = read(fd, buf, sizeof(buf) - 1)) > 0)
		last = n;
	buf[last] = '\0';
	return memmem(buf, (size_t)last, text, strlen(text)) != NULL;
}

/* Seen failing, by the time limit, with a plain write(). */
static void test_a_full_sink_loses_the_line_and_blocks_nobody(void **state)
{
	for (int is_socket = 0; is_socket < 2; is_socket++) {
		int fds[2];

		if (is_socket)
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		else
			assert_int_equal(pipe(fds), 0);
		log_open("test", fds[1], 0);
		log_info("the first");
		assert_true(is_read(fds[0], "the first\n"));
		fill(fds[1]);
		log_info("the second");
		assert_false(is_read(fds[0], "the second"));
		log_info("the third");
		assert_true(is_read(fds[0], "the third\n"));
		log_open("test", -1, 0);
		close(fds[0]);
		log_open("test", fds[1], 0);
		signal(SIGPIPE, SIG_IGN);
		log_info("to nobody");
		log_open("test", -1, 0);
		close(fds[1]);
	}
}

/* A line ends in a file, too, which is neither a pipe nor a socket. */
static void test_a_file_gets_each_line(void **state)
{
	FILE *f = tmpfile();

	log_open("test", fileno(f), 0);
	for (int i = 0; i < 100; i++)
		log_info("line %d", i);
	log_open("test", -1, 0);
	rewind(f);
	assert_true(is_read(fileno(f), "line 99\n"));
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_full_sink_loses_the_line_and_blocks_nobody),
		cmocka_unit_test(test_a_file_gets_each_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
