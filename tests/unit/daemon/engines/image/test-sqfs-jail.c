/*
 * What the child that checks an image may do, from the moment on when it reads the first byte. The
 * image and its walk are the test's: these functions stand in the place of sqfs-image.c's and
 * sqfs-check.c's, and do in the child what an image that has taken it over would.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/util/fd.h"
#include "daemon/engines/image/sqfs-check.h"
#include "daemon/engines/image/sqfs-image.h"
#include "tests/unit/unit.h"

enum {
	MEMORY = 256 << 20,
	SECONDS = 3,
	INODES = 10 << 20
}; /* of sqfs-check-run.c; 50 bytes an inode */

struct sqfs_image {
	int fd;
	struct sqfs_super super;
};

static struct sqfs_image image; /* as the child finds it */
static int other_fd;		/* of the worker's */
static void (*on_open)(void), (*on_walk)(void);

/* In the child; where it does not hold the parent gets the line. */
static char wrong[64];
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition) && !wrong[0])                                                     \
			snprintf(wrong, sizeof(wrong), "line %d, errno %d", __LINE__, errno);      \
	} while (0)
#define CHECK_DENIED(call) CHECK((errno = 0, (call) == -1) && errno == EPERM)

static int answer(struct error *err)
{
	return wrong[0] ? error_set(err, EIO, "%s", wrong) : 0;
}

int sqfs_image_open(struct sqfs_image **imgp, int fd, size_t cache_size, struct error *err)
{
	image.fd = fd;
	if (on_open)
		on_open();
	*imgp = &image;
	return answer(err);
}

void sqfs_image_close(struct sqfs_image *img)
{
}

const struct sqfs_super *sqfs_image_get_super(const struct sqfs_image *img)
{
	return &img->super;
}

int sqfs_check_walk(struct sqfs_image *img, struct sqfs_counts *counts, struct error *err)
{
	*counts = (struct sqfs_counts){ .n_files = 7 };
	if (on_walk)
		on_walk();
	return answer(err);
}

static int image_setup(void **state)
{
	image = (struct sqfs_image){ .super = { .n_inodes = INODES } };
	on_open = on_walk = NULL;
	other_fd = fcntl(0, F_DUPFD_CLOEXEC, 20);
	return other_fd < 0 ? -1 : 0;
}

static int image_teardown(void **state)
{
	close(other_fd);
	return 0;
}

static int check(struct error *err)
{
	_cleanup_(fd_closep) int fd = memfd_create("image", MFD_CLOEXEC);
	struct sqfs_counts counts;
	struct stat st;
	int r;

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "image", 5, 0), 5);
	r = sqfs_check_run(fd, &counts, NULL, NULL, err);
	if (r == 0)
		assert_int_equal(counts.n_files, 7);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 5);
	return r;
}

static void expect_sound(void)
{
	struct error err = ERROR_INIT;

	if (check(&err) < 0)
		fail_msg("%s", err.text);
}

static void expect_words(const char *words)
{
	struct error err = ERROR_INIT;

	assert_int_equal(check(&err), -EIO);
	if (!strstr(err.text, words))
		fail_msg("'%s' has no '%s'", err.text, words);
}

static void try_calls(void)
{
	char *const argv[] = { (char *)"true", NULL };
	const int how = MAP_PRIVATE | MAP_ANONYMOUS;
	struct stat st;
	char c;

	CHECK(pread(image.fd, &c, 1, 0) == 1 && c == 'i' && fstat(image.fd, &st) == 0);
	CHECK_DENIED(open("/etc/passwd", O_RDONLY));
	CHECK_DENIED((int)syscall(__NR_openat, AT_FDCWD, "/", O_RDONLY, 0));
	CHECK_DENIED(socket(AF_UNIX, SOCK_STREAM, 0));
	CHECK_DENIED((int)syscall(__NR_kill, getpid(), 0));
	CHECK_DENIED(execve("/bin/true", argv, argv));
	CHECK_DENIED((int)syscall(__NR_clone, SIGCHLD, 0, 0, 0, 0));
	CHECK_DENIED(unlink("/nonexistent"));
	CHECK_DENIED((intptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, how, -1, 0));
	CHECK_DENIED((int)syscall(__NR_prlimit64, getppid(), RLIMIT_CORE, NULL, NULL));
	CHECK(read(other_fd, &c, 1) == -1 && errno == EBADF);
}

/* Seen failing where sqfs_jail_enter() is empty, or not called before the image is opened. */
static void test_nothing_can_be_done_from_the_first_byte(void **state)
{
	on_open = on_walk = try_calls;
	expect_sound();
}

static rlim_t get_soft(int resource)
{
	struct rlimit limit = { 0 };

	CHECK(syscall(__NR_prlimit64, 0, resource, NULL, &limit) == 0);
	return limit.rlim_cur;
}

static void *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void try_memory(void)
{
	struct rlimit more = { RLIM_INFINITY, RLIM_INFINITY };
	uint64_t most = MEMORY + INODES * UINT64_C(50);

	CHECK(get_soft(RLIMIT_CPU) == SECONDS && get_soft(RLIMIT_CORE) == 0);
	CHECK(geteuid() == 0 || syscall(__NR_prlimit64, 0, RLIMIT_AS, &more, NULL) == -1);
	CHECK(map(most + (1 << 20)) == MAP_FAILED && errno == ENOMEM);
	CHECK(map(most - (32 << 20)) != MAP_FAILED);
}

/* Seen failing where sqfs_jail_limit() is empty, or knows no inodes. */
static void test_memory_ends_at_what_the_inodes_explain(void **state)
{
	on_walk = try_memory;
	expect_sound();
}

static void write_to_the_image(void)
{
	CHECK(write(image.fd, "more", 4) < 0);
}

/* Seen failing without RLIMIT_FSIZE. */
static void test_the_image_can_not_be_written_to(void **state)
{
	on_open = write_to_the_image;
	expect_words("its check ended by signal 25 (File size limit exceeded)");
}

static void spin(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

/* Seen failing where soft and hard limit are one: that is SIGKILL. */
static void test_who_does_not_end_is_told_as_that(void **state)
{
	on_walk = spin;
	expect_words("its check does not end");
}

static void trap(void)
{
	__builtin_trap();
}

static void end_early(void)
{
	_exit(5);
}

/* Seen failing with the signal's number alone. */
static void test_how_it_ended_is_told(void **state)
{
	on_open = trap;
#if defined(__x86_64__)
	expect_words("its check ended by signal 4 (Illegal instruction)");
#else
	expect_words("its check ended by signal ");
#endif
	on_open = end_early;
	expect_words("its check ended by status 5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_can_be_done_from_the_first_byte,
						image_setup, image_teardown),
		cmocka_unit_test_setup_teardown(test_memory_ends_at_what_the_inodes_explain,
						image_setup, image_teardown),
		cmocka_unit_test_setup_teardown(test_the_image_can_not_be_written_to, image_setup,
						image_teardown),
		cmocka_unit_test_setup_teardown(test_who_does_not_end_is_told_as_that, image_setup,
						image_teardown),
		cmocka_unit_test_setup_teardown(test_how_it_ended_is_told, image_setup,
						image_teardown),
	};

	if (unit_is_under_valgrind()) /* it does not know seccomp() */
		return UNIT_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
