/*
 * Names with backslashes in a zip that Unix made, where a read of it fails once (NFS, soft): it
 * says so, or they are as they were. Breaks where what can't be read of the list counts as its end:
 * libarchive reads it by itself a moment later, and a\b is a directory.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "common/util/fd.h"
#include "daemon/engines/archive/decode.h"

#define N_MEMBERS 3
#define FAR 700000 /* in front of the list: its beginning is no part of what is read of its end */

static int n_until; /* reads until one fails; 0: none does */
static bool has_failed, reads_little;

static ssize_t read_or_fail(int fd, void *buf, size_t size, off_t at)
{
	if (n_until > 0 && --n_until == 0) {
		has_failed = true;
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pread64, fd, buf, reads_little && size > 7 ? size / 2 : size, at);
}

/* In place of libc's */
ssize_t pread(int fd, void *buf, size_t size, off_t at)
{
	return read_or_fail(fd, buf, size, at);
}

static size_t put(unsigned char *to, uint64_t v, size_t n)
{
	for (size_t i = 0; i < n; i++, v >>= 8)
		to[i] = (unsigned char)v;
	return n;
}

/* Of 0x00: where they are known, the fields of both headers that are not zero. */
static size_t put_header(unsigned char *to, bool in_list, const char *name, size_t offset)
{
	const size_t n = strlen(name), head = in_list ? 46 : 30;

	memset(to, 0, head);
	put(to, in_list ? 0x02014b50 : 0x04034b50, 4);
	put(to + 4, in_list ? 0x031e : 10, 2); /* of Unix */
	put(to + (in_list ? 28 : 26), n, 2);
	if (in_list) {
		put(to + 38, 0100644u << 16, 4);
		put(to + 42, offset, 4);
	}
	memcpy(to + head, name, n);
	return head + n;
}

/* Empty members, and the list far behind them. */
static int make_zip(const char *dir)
{
	static const char *const names[N_MEMBERS] = { "a\\b", "c", "d\\" };
	static unsigned char zip[FAR + 1000];
	size_t at[N_MEMBERS], n = 0, list = FAR, size;
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;

	for (size_t i = 0; i < N_MEMBERS; i++) {
		at[i] = n;
		n += put_header(zip + n, false, names[i], 0);
	}
	for (size_t i = 0; i < N_MEMBERS; i++)
		list += put_header(zip + list, true, names[i], at[i]);
	size = list;
	memset(zip + size, 0, 22);
	put(zip + size, 0x06054b50, 4);
	put(zip + size + 8, N_MEMBERS, 2);
	put(zip + size + 10, N_MEMBERS, 2);
	put(zip + size + 12, list - FAR, 4);
	put(zip + size + 16, FAR, 4);
	fd = openat(dirfd, "z.zip", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(fd_write_all(fd, zip, size + 22), 0);
	close(dirfd);
	return fd;
}

/* 0: all names are there and right, 1: they are not, or -errno. */
static int look(int fd)
{
	_cleanup_(decode_closep) struct decode *d = NULL;
	struct error err = ERROR_INIT;
	struct member m;
	int r, n = 0, right = 0;

	r = decode_open_zip_file(&d, NULL, fd, &err);
	while (r == 0 && (r = decode_next(d, &m, &err)) > 0) {
		right += m.type == MEMBER_FILE && (!strcmp(m.path, "a\\b") ||
						   !strcmp(m.path, "c") || !strcmp(m.path, "d\\"));
		n++;
		r = 0;
	}
	return r < 0 ? r : n != N_MEMBERS || right != N_MEMBERS;
}

static void test_a_read_that_fails_makes_no_other_names(void **state)
{
	int fd, r, n = 0;

	if (!decode_is_available())
		skip();
	fd = make_zip(*state);
	assert_int_equal(look(fd), 0);
	do {
		has_failed = false;
		n_until = ++n;
		r = look(fd);
		if (r == 1)
			fail_msg("read %d failed: names that are others", n);
		assert_true(r == 0 || has_failed);
	} while (has_failed);
	n_until = 0;
	assert_true(n > 3);
	close(fd);
}

static void test_reads_that_give_less_make_no_other_names(void **state)
{
	int fd;

	if (!decode_is_available())
		skip();
	fd = make_zip(*state);
	reads_little = true;
	assert_int_equal(look(fd), 0);
	reads_little = false;
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_read_that_fails_makes_no_other_names,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_reads_that_give_less_make_no_other_names,
						unit_scratch_setup, unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
