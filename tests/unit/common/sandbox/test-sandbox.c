#include "common/sandbox/sandbox.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/unit/unit-confined.h"

static void in_child(void (*run)(const char *dir))
{
	char dir[] = "/tmp/test-sandbox-XXXXXX", command[64];

	assert_non_null(mkdtemp(dir));
	unit_check_in_child(run, dir);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
}

static int make(const char *dir, const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -errno : 0;
}

static void *do_sockets(void *arg)
{
	CHECK_DENIED(socket(AF_INET, SOCK_STREAM, 0));
	return NULL;
}

static void *wait_for_it(void *arg)
{
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return do_sockets(NULL);
}

static void *do_nothing(void *arg)
{
	return arg;
}

/* What libc asks for still comes: clone3() first, then, and with an old libc at once, clone(). */
static void start_threads_and_children(void)
{
	pthread_t thread;
	int status;
	pid_t pid;

	CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	pid = fork();
	if (pid == 0)
		_exit(7);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 7 << 8);
}

static void give_up_calls(const char *dir)
{
	pthread_barrier_t barrier;
	pthread_t thread;

	/* Root, where it runs: what is refused is refused by the filter. */
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(pthread_create(&thread, NULL, wait_for_it, &barrier) == 0);
	pthread_barrier_wait(&barrier);
	sandbox_enter();
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
	CHECK_DENIED(socket(AF_UNIX, SOCK_STREAM, 0));
	unit_check_denied_to_all();
	start_threads_and_children();
	CHECK(make(dir, "file") == 0);
	pthread_barrier_wait(&barrier); /* of the threads that were there before, too */
	pthread_join(thread, NULL);
	sandbox_enter(); /* a second time */
	CHECK(make(dir, "file2") == 0);
}

static void test_calls_that_no_stager_needs_are_refused(void **state)
{
	in_child(give_up_calls);
}

static void start_a_program(const char *dir)
{
	sandbox_enter_program();
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CHECK_DENIED(socket(AF_INET, SOCK_STREAM, 0));
	unit_check_denied_but_programs();
	CHECK(make(dir, "file") == 0);
	/* The program has the filter, too: without a socket bash has no /dev/tcp. */
	execl("/bin/bash", "bash", "-c",
	      "exec 2>/dev/null; ! : </dev/tcp/127.0.0.1/1 && grep -q 'Seccomp:.2' "
	      "/proc/self/status",
	      NULL);
	_exit(1);
}

static void test_a_program_of_others_may_start_programs_and_no_more(void **state)
{
	in_child(start_a_program);
}

/* Seen failing without the rules of seccomp_allow(). */
static void map_no_code(void)
{
	const int how = MAP_PRIVATE | MAP_ANONYMOUS;
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, how, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK_DENIED(mprotect(p, 4096, PROT_READ | PROT_EXEC));
	CHECK_DENIED((intptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, how, -1, 0));
	CHECK(mprotect(p, 4096, PROT_READ) == 0 && munmap(p, 4096) == 0);
}

static void *serve(void *arg)
{
	int *fds = arg;
	char buf[4];

	sandbox_enter_server_thread();
	CHECK(write(fds[1], "abc", 4) == 4 && read(fds[0], buf, 4) == 4);
	free(malloc(1 << 20));
	CHECK_DENIED(open("/etc/passwd", O_RDONLY));
	CHECK_DENIED(unlink("/nonexistent"));
	CHECK_DENIED((int)syscall(__NR_kill, getpid(), 0));
	map_no_code();
	return NULL;
}

static void serve_in_thread(const char *dir)
{
	pthread_t thread;
	int fds[2];

	CHECK(pipe(fds) == 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(pthread_create(&thread, NULL, serve, fds) == 0);
	pthread_join(thread, NULL);
	CHECK(make(dir, "others-may") == 0);
}

static void test_a_thread_that_serves_opens_nothing(void **state)
{
	in_child(serve_in_thread);
}

static void *wait_beside(void *arg)
{
	int *fds = arg;
	struct pollfd p = { fds[0], POLLIN, 0 };
	struct stat st;
	char buf[4];

	sandbox_enter_beside_server();
	CHECK(write(fds[1], "abc", 4) == 4 && poll(&p, 1, -1) == 1 && read(fds[0], buf, 4) == 4);
	CHECK(pwrite(fds[2], "abc", 3, 1) == 3 && pread(fds[2], buf, 4, 0) == 4);
	CHECK(lseek(fds[2], 0, SEEK_DATA) == 0 && fstat(fds[2], &st) == 0 && st.st_size == 4);
	CHECK(futimens(fds[2], NULL) == 0 && usleep(1) == 0);
	CHECK(kill(getpid(), 0) == 0);
	CHECK_DENIED(open("/etc/passwd", O_RDONLY));
	CHECK_DENIED(unlink("/nonexistent"));
	CHECK_DENIED(socket(AF_UNIX, SOCK_STREAM, 0));
	CHECK_DENIED((int)syscall(__NR_prctl, PR_GET_SECCOMP, 0, 0, 0, 0));
	map_no_code();
	return NULL;
}

static void wait_in_thread(const char *dir)
{
	char path[64];
	pthread_t thread;
	int fds[3];

	snprintf(path, sizeof(path), "%s/open-before", dir);
	fds[2] = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(pipe(fds) == 0 && fds[2] >= 0);
	CHECK(pthread_create(&thread, NULL, wait_beside, fds) == 0);
	pthread_join(thread, NULL);
	CHECK(make(dir, "others-may") == 0);
}

static void test_a_thread_beside_them_opens_nothing(void **state)
{
	in_child(wait_in_thread);
}

/* Its size and mode are the worker's: it is written to, and that is all. */
static void write_and_no_more(int fd, const char *path)
{
	struct stat st;

	CHECK(pwrite(fd, "x", 1, 5) == 1);
	CHECK_DENIED(ftruncate(fd, 0));
	CHECK_DENIED(fallocate(fd, 0, 0, 100));
	CHECK_DENIED(fchmod(fd, 0777));
	CHECK_DENIED((int)syscall(452, AT_FDCWD, path, 0777, 0)); /* fchmodat2 */
	CHECK_DENIED(fchown(fd, geteuid(), getegid()));
	CHECK_DENIED(fremovexattr(fd, "user.x"));
	CHECK_DENIED((int)syscall(466, AT_FDCWD, path, 0, "user.x")); /* removexattrat */
	CHECK_DENIED(futimens(fd, NULL));
#ifdef __NR_utime
	CHECK_DENIED((int)syscall(__NR_utime, path, NULL));
#endif
#ifdef __NR_utimes
	CHECK_DENIED((int)syscall(__NR_utimes, path, NULL));
#endif
#ifdef __NR_futimesat
	CHECK_DENIED((int)syscall(__NR_futimesat, AT_FDCWD, path, NULL));
#endif
	CHECK(fstat(fd, &st) == 0 && st.st_size == 6 && (st.st_mode & 07777) == 0600);
}

static void open_nothing_for_writing(const char *dir, const char *path)
{
	struct stat st;

	CHECK_DENIED(open(path, O_WRONLY));
	CHECK_DENIED(open(path, O_RDWR));
	CHECK_DENIED(open(path, O_RDONLY | O_TRUNC));
	CHECK_DENIED(openat(AT_FDCWD, path, O_RDONLY | O_TRUNC));
	CHECK_DENIED(open(dir, O_RDWR | O_TMPFILE, 0600));
	CHECK(make(dir, "new") == -EPERM);
	CHECK_DENIED(truncate(path, 0));
#ifdef __NR_open /* libc takes openat() */
	CHECK_DENIED((int)syscall(__NR_open, path, O_RDONLY | O_TRUNC));
#endif
	CHECK(syscall(437, AT_FDCWD, path, NULL, 0) == -1 &&
	      errno == ENOSYS); /* openat2, whose flags no filter sees */
	CHECK(stat(path, &st) == 0 && st.st_size == 6);
}

/* The other way round: the network, and no file but those that are handed over. */
static void fetch_only(const char *dir)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/open-before", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0);
	sandbox_enter_fetcher();
	CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
	CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0);
	unit_check_denied_to_all();
	start_threads_and_children();
	CHECK_DENIED(mkdir(path, 0700));
	CHECK_DENIED(unlink(path));
	CHECK_DENIED(rename(path, path));
	write_and_no_more(fd, path);
	open_nothing_for_writing(dir, path);
	CHECK(open("/etc/passwd", O_RDONLY) >= 0);
}

static void fetch_behind_landlock(const char *dir)
{
	int version = -1, fd;
	char path[64];
	struct stat st;

#ifdef __NR_landlock_create_ruleset
	version = (int)syscall(__NR_landlock_create_ruleset, NULL, 0, 1);
#endif
	if (version <= 0)
		return; /* there is nothing but the filter */
	snprintf(path, sizeof(path), "%s/open-before", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0 && write(fd, "abc", 3) == 3);
	unit_refuse_filters();
	sandbox_enter_fetcher();
	CHECK(open(path, O_WRONLY) == -1 && errno == EACCES);
	CHECK(make(dir, "new") == -EACCES);
	if (version >= 3) {
		CHECK(open(path, O_RDONLY | O_TRUNC) == -1 && errno == EACCES);
		CHECK(truncate(path, 0) == -1 && errno == EACCES);
	}
	CHECK(pwrite(fd, "x", 1, 5) == 1);
	CHECK(stat(path, &st) == 0 && st.st_size == 6);
}

static void test_who_fetches_writes_what_it_is_handed(void **state)
{
	in_child(fetch_only);
}

static void test_landlock_alone_leaves_files_as_they_are(void **state)
{
	in_child(fetch_behind_landlock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_that_no_stager_needs_are_refused),
		cmocka_unit_test(test_a_program_of_others_may_start_programs_and_no_more),
		cmocka_unit_test(test_a_thread_that_serves_opens_nothing),
		cmocka_unit_test(test_a_thread_beside_them_opens_nothing),
		cmocka_unit_test(test_who_fetches_writes_what_it_is_handed),
		cmocka_unit_test(test_landlock_alone_leaves_files_as_they_are),
	};

	if (unit_is_under_valgrind()) /* it does not know seccomp() */
		return UNIT_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
