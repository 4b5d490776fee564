/* The server of an image, with a socket in the place of /dev/fuse. */
#include "tests/unit/sqfs-unit.h"

#include <pthread.h>
#include <sys/socket.h>

#include <linux/fuse.h>

#include "daemon/worker/sqfs/sqfs-fuse.h"

enum { LARGE_PAGE = 65536, MOST = 1 << 20 }; /* MOST: what one read gets */

/* In the place of libc's: as on an arm64 machine whose kernel has such pages. */
int getpagesize(void)
{
	return LARGE_PAGE;
}

static void *serve(void *server)
{
	assert_int_equal(sqfs_server_run(server, NULL), 0);
	return NULL;
}

/*
 * Who gets less than he asked for takes that for the end of the file. Seen failing when the size of
 * requests was left to libfuse, which takes 256 pages.
 */
static void test_no_request_is_larger_than_what_is_answered(void **state)
{
	struct {
		struct fuse_in_header in;
		struct fuse_init_in init;
	} ask = {
		.in = { .len = sizeof(ask), .opcode = FUSE_INIT, .unique = 2 },
		.init = { .major = FUSE_KERNEL_VERSION,
			  .minor = 31,
			  .max_readahead = UINT32_MAX,
			  .flags = FUSE_MAX_PAGES | FUSE_ASYNC_READ },
	};
	struct {
		struct fuse_out_header out;
		struct fuse_init_out init;
	} answer = { 0 };
	const struct sqfs_server_options options = { .n_threads = 1 };
	_cleanup_(sqfs_server_freep) struct sqfs_server *server = NULL;
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	char dir[4096];
	pthread_t thread;
	int fds[2], fd;

	sqfs_unit_dir(dir, *state, "tree");
	if (!sqfs_unit_pack(*state, "-comp gzip"))
		skip();
	fd = sqfs_unit_open(*state);
	assert_int_equal(sqfs_image_open(&img, fd, 1 << 20, NULL), 0);
	assert_int_equal(sqfs_server_new(&server, img, &options, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(sqfs_server_attach(server, fds, 1, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);

	assert_int_equal(write(fds[1], &ask, sizeof(ask)), sizeof(ask));
	assert_true(read(fds[1], &answer, sizeof(answer)) >= (ssize_t)sizeof(answer.out) + 24);
	assert_int_equal(answer.out.error, 0);
	assert_true(answer.init.flags & FUSE_MAX_PAGES);
	assert_in_range(answer.init.max_pages * LARGE_PAGE, 1, MOST);
	close(fds[1]); /* the mount is gone */
	pthread_join(thread, NULL);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_request_is_larger_than_what_is_answered,
						unit_scratch_setup, unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
