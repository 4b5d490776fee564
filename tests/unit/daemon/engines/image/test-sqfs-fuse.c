/* The server of an image, with a socket in the place of /dev/fuse. */
#include "tests/unit/daemon/engines/image/sqfs-unit.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <linux/fuse.h>

#include "daemon/engines/image/sqfs-fuse.h"
#include "daemon/engines/image/sqfs-volume.h"
#include "daemon/engines/image/volume.h"

enum { LARGE_PAGE = 65536, MOST = 1 << 20, N_THREADS = 3 }; /* MOST: what one read gets */

/* In the place of libc's: as on an arm64 machine whose kernel has such pages. */
int getpagesize(void)
{
	return LARGE_PAGE;
}

/* Threads with a list of calls: filters, where no list of what is refused is in force. */
static unsigned count_shut_in(void)
{
	_cleanup_(dir_closep) DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;
	struct dirent *e;

	assert_non_null(dir);
	while ((e = readdir(dir))) {
		_cleanup_(file_closep) FILE *f = NULL;
		char line[256], path[300];

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			n += strcmp(line, "Seccomp:\t2\n") == 0;
	}
	return n;
}

static void *serve(void *server)
{
	assert_int_equal(sqfs_server_run(server, NULL), 0);
	return NULL;
}

/* Threads that serve, and the one that waits for them, once they have come so far. Seen failing
 * without one of the two calls of sandbox.h. */
static void expect_shut_in(unsigned n)
{
	unsigned now = 0;

	for (unsigned i = 0; i < 1000 && now != n; i++) {
		now = count_shut_in();
		usleep(5000);
	}
	if (!unit_is_under_valgrind()) /* it does not know seccomp() */
		assert_int_equal(now, n);
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
	const struct sqfs_server_options options = { .n_threads = N_THREADS };
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	_cleanup_(volume_freep) struct volume *volume = NULL;
	_cleanup_(sqfs_server_freep) struct sqfs_server *server = NULL;
	char dir[4096];
	pthread_t thread;
	int fds[2], fd;

	sqfs_unit_dir(dir, *state, "tree");
	if (!sqfs_unit_pack(*state, "-comp gzip"))
		skip();
	fd = sqfs_unit_open(*state);
	assert_int_equal(sqfs_image_open(&img, fd, 1 << 20, NULL), 0);
	assert_int_equal(sqfs_volume_new(&volume, img), 0);
	assert_int_equal(sqfs_server_new(&server, volume, &options, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(sqfs_server_attach(server, fds, 1, NULL), 0);
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, server), 0);

	assert_int_equal(write(fds[1], &ask, sizeof(ask)), sizeof(ask));
	assert_true(read(fds[1], &answer, sizeof(answer)) >= (ssize_t)sizeof(answer.out) + 24);
	assert_int_equal(answer.out.error, 0);
	assert_true(answer.init.flags & FUSE_MAX_PAGES);
	assert_in_range(answer.init.max_pages * LARGE_PAGE, 1, MOST);
	expect_shut_in(N_THREADS + 1);
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
