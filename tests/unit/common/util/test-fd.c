#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/util/fd.h"

#define NR_CLOSE_RANGE 436
#define NR_OPENAT2 437

/* Makes a system call answer ENOSYS, as an old kernel would. For a child process. */
static void forbid(unsigned nr)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0 /* offsetof(struct seccomp_data, nr) */),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		_exit(99);
}

static bool is_same(int fd, int base, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(base, path, &b, 0) == 0 && a.st_ino == b.st_ino &&
	       fcntl(fd, F_GETFD) & FD_CLOEXEC;
}

#define NAME_OF_64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME_OF_256 NAME_OF_64 NAME_OF_64 NAME_OF_64 NAME_OF_64

/* 0, or the number of what is wrong */
static int check_names(int base)
{
	static const struct {
		const char *path;
		int flags, expect;
	} cases[] = {
		{ "a/f", O_RDONLY, 0 },
		{ "f", O_RDONLY, 0 },
		{ "a/b/f", O_RDONLY, 0 },
		{ "a/./f", O_RDONLY, 0 },
		{ "a//f", O_RDONLY, 0 },
		{ "a/b/", O_RDONLY | O_DIRECTORY, 0 }, /* openat2() lets no mode pass beside it */
		{ "link", O_RDONLY, -ELOOP },	       /* link at the end */
		{ "out/passwd", O_RDONLY, -ELOOP },    /* link in the middle */
		{ "in/f", O_RDONLY, -ELOOP },	       /* even one that stays inside */
		{ "../x", O_RDONLY, -EXDEV },
		{ "/etc/passwd", O_RDONLY, -EXDEV },
		{ "a/none", O_RDONLY, -ENOENT },
		{ "", O_RDONLY, -ENOENT },
		{ NAME_OF_256, O_RDONLY, -ENAMETOOLONG },
		{ NAME_OF_256 "/f", O_RDONLY, -ENAMETOOLONG },
	};
	static const char *const files[] = { "a/f/", "a/f/x",
					     "fifo/x" }; /* where a directory is wanted */
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		fd = fd_open_beneath(base, cases[i].path, cases[i].flags, 0600);
		if (cases[i].expect < 0 ? fd != cases[i].expect : !is_same(fd, base, cases[i].path))
			return (int)i + 1;
		if (fd >= 0)
			close(fd);
	}
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		fd = fd_open_beneath(base, files[i], O_RDONLY, 0);
		if (fd != -ENOTDIR &&
		    fd != -ELOOP) /* the kernel and the walk, which asked for no link */
			return (int)i + 50;
	}
	return 0;
}

/* What breaks it: a descriptor that is left open, one that is 0 and taken for none, a mode that
 * is lost, or handed over where nothing is made, a FIFO on the way that is waited for. */
static int check_beneath(const char *dir, bool without_stdin)
{
	int base = open(dir, O_PATH | O_DIRECTORY), lowest, r, fd;
	struct stat st;

	alarm(10);
	if (without_stdin)
		close(0);
	lowest = dup(base);
	close(lowest);
	r = check_names(base);
	if (r)
		return r;
	umask(0);
	fd = fd_open_beneath(base, "a/new", O_WRONLY | O_CREAT | O_EXCL, 0640);
	if (write(fd, "x", 1) != 1 || fstat(fd, &st) < 0 || (st.st_mode & 07777) != 0640 ||
	    !is_same(fd, base, "a/new") || unlinkat(base, "a/new", 0) < 0)
		return 70;
	close(fd);
	fd = dup(base);
	return fd == lowest ? 0 : 71;
}

static void test_open_stays_beneath_with_and_without_openat2(void **state)
{
	_cleanup_(freep) char *cmd = NULL;
	int status;

	assert_true(asprintf(&cmd,
			     "cd '%s' && mkdir -p a/b && touch f a/f a/b/f && ln -s a/f link && "
			     "ln -s /etc out && ln -s a in && mkfifo fifo",
			     (char *)*state) > 0);
	assert_int_equal(system(cmd), 0);
	for (int i = 0; i < 4; i++) {
		if (fork() == 0) {
			if (i & 1)
				forbid(NR_OPENAT2);
			_exit(check_beneath(*state, i & 2));
		}
		wait(&status);
		assert_int_equal(status, 0);
	}
}

static int check_close_from(void)
{
	int a = dup(0), b = fcntl(0, F_DUPFD, 200);

	fd_close_from(a);
	return fcntl(a, F_GETFD) >= 0 || fcntl(b, F_GETFD) >= 0 || fcntl(2, F_GETFD) < 0;
}

static void test_close_from_with_and_without_close_range(void **state)
{
	int status;

	for (int forced = 0; forced < 2; forced++) {
		if (fork() == 0) {
			if (forced)
				forbid(NR_CLOSE_RANGE);
			_exit(check_close_from());
		}
		wait(&status);
		assert_int_equal(status, 0);
	}
}

static void test_files_are_read_whole_or_refused(void **state)
{
	_cleanup_(freep) char *path = NULL, *data = NULL;
	char big[10000];
	size_t size;
	int fd;

	assert_true(asprintf(&path, "%s/f", (char *)*state) > 0);
	memset(big, 'x', sizeof(big));
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(fd_write_all(fd, big, sizeof(big)), 0);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(fd_read_file(fd, sizeof(big) - 1, &data, &size), -EFBIG);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(fd_read_file(fd, sizeof(big), &data, &size), 0);
	assert_int_equal(size, sizeof(big));
	assert_int_equal(data[size], 0);
	assert_int_equal(fd_read_all(fd, big, 1), -EPIPE);
	close(fd);
}

static void test_pieces_are_read_and_written_at_their_offsets(void **state)
{
	_cleanup_(freep) char *path = NULL;
	const struct rlimit small = { 8, RLIM_INFINITY };
	char buf[8] = "";
	struct rlimit before;
	int ends[2];
	int fd;

	assert_true(asprintf(&path, "%s/f", (char *)*state) > 0);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(fd_pwrite_all(fd, "cd", 2, 2), 0);
	assert_int_equal(fd_pwrite_all(fd, "ab", 2, 0), 0);
	assert_int_equal(fd_pread_all(fd, buf, sizeof(buf), 1), 3);
	assert_string_equal(buf, "bcd");
	assert_int_equal(fd_pread_all(fd, buf, sizeof(buf), 4), 0);
	assert_int_equal(fd_pread_all(-1, buf, sizeof(buf), 0), -EBADF);

	/* The kernel writes 4 of the 8 bytes, and none the second time. */
	getrlimit(RLIMIT_FSIZE, &before);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(fd_pwrite_all(fd, "efghijkl", 8, 4), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(fd_pread_all(fd, buf, sizeof(buf), 0), 8);
	assert_memory_equal(buf, "abcdefgh", 8);
	close(fd);

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fd_pwrite_all(ends[1], "a", 1, 0), -ESPIPE);
	assert_int_equal(fd_pread_all(ends[0], buf, 1, 0), -ESPIPE);
	close(ends[0]);
	close(ends[1]);
}

static void test_a_limit_is_raised_and_never_lowered(void **state)
{
	struct rlimit before, limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = (struct rlimit){ 70000, before.rlim_max > 70001 ? before.rlim_max : 70001 };
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		print_message("this user may not have so many descriptors\n");
		skip();
	}
	fd_raise_limit();
	getrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(limit.rlim_cur, 70000);
	limit.rlim_cur = 1000;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fd_raise_limit();
	getrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(limit.rlim_cur, 65536);
	setrlimit(RLIMIT_NOFILE, &before);
}

/* Seen failing without it: the next file that is opened gets the number of stdin or stdout. */
static void test_closed_standard_descriptors_are_filled(void **state)
{
	int kept[3], r[3], next;
	char c = 'x';

	for (int fd = 0; fd < 3; fd++)
		kept[fd] = fcntl(fd, F_DUPFD, 3);
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	fd_fill_standard();
	next = open("/dev/null", O_RDONLY);
	r[0] = (int)read(0, &c, 1);
	r[1] = (int)write(1, &c, 1);
	r[2] = (int)write(2, &c, 1);
	close(next);
	for (int fd = 0; fd < 3; fd++) {
		dup2(kept[fd], fd);
		close(kept[fd]);
		assert_int_equal(r[fd], -1); /* as with a closed one */
	}
	assert_true(next > 2);
}

int main(void)
{
#define SCRATCH(f) cmocka_unit_test_setup_teardown(f, unit_scratch_setup, unit_scratch_teardown)
	const struct CMUnitTest tests[] = {
		SCRATCH(test_open_stays_beneath_with_and_without_openat2),
		cmocka_unit_test(test_close_from_with_and_without_close_range),
		SCRATCH(test_files_are_read_whole_or_refused),
		SCRATCH(test_pieces_are_read_and_written_at_their_offsets),
		cmocka_unit_test(test_a_limit_is_raised_and_never_lowered),
		cmocka_unit_test(test_closed_standard_descriptors_are_filled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
