/*
 * On a file system that can't exchange two names, the old copy moves to .stage-old first. If what
 * another mover left there could not be removed, the mover deleted the new copy and reported
 * success.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/mover/place.h"

static const char *busy; /* can't be removed */

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	(void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
	errno = EINVAL;
	return -1;
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
	if (!busy || strcmp(name, busy))
		return __real_unlinkat(dir, name, flags);
	errno = EBUSY;
	return -1;
}

static void make_file(int dir, const char *name, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void expect_text(int dir, const char *name, const char *text)
{
	_cleanup_(fd_closep) int fd = openat(dir, name, O_RDONLY);
	char buf[16] = "";

	assert_true(fd >= 0);
	assert_int_equal(read(fd, buf, sizeof(buf) - 1), strlen(text));
	assert_string_equal(buf, text);
}

/* A copy that is there, and a new one. */
static void open_place(struct place *p, const char *dir)
{
	struct error err = ERROR_INIT;

	assert_int_equal(place_open(p, dir, "set", &err), 0);
	assert_int_equal(place_lock(p, &err), 0);
	make_file(p->fd, "set", "old");
	make_file(p->fd, PLACE_JOURNAL, "");
	make_file(p->partial_fd, "set", "new");
}

static void test_a_copy_is_replaced_without_an_exchange(void **state)
{
	struct place p = PLACE_NONE;
	struct error err = ERROR_INIT;
	struct stat st = { .st_mode = S_IFREG | 0600 };

	busy = NULL;
	open_place(&p, *state);
	assert_int_equal(place_publish(&p, &st, &err), 0);
	expect_text(p.fd, "set", "new");
	assert_int_equal(faccessat(p.fd, PLACE_JOURNAL, F_OK, 0), -1);
	assert_int_equal(faccessat(p.fd, ".stage-old", F_OK, 0), -1);
	place_close(&p);
}

static void test_a_new_copy_stays_where_the_old_one_can_not_move(void **state)
{
	struct place p = PLACE_NONE;
	struct error err = ERROR_INIT;
	struct stat st = { .st_mode = S_IFREG | 0600 };

	open_place(&p, *state);
	assert_int_equal(mkdirat(p.fd, ".stage-old", 0700), 0);
	make_file(p.fd, ".stage-old/stays", "");
	busy = "stays";
	assert_int_equal(place_publish(&p, &st, &err), -EBUSY);
	expect_text(p.fd, "set", "old");
	expect_text(p.partial_fd, "set", "new");
	assert_int_equal(faccessat(p.fd, PLACE_JOURNAL, F_OK, 0), 0);

	busy = NULL;
	assert_int_equal(place_publish(&p, &st, &err), 0);
	expect_text(p.fd, "set", "new");
	place_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_copy_is_replaced_without_an_exchange,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(
			test_a_new_copy_stays_where_the_old_one_can_not_move, unit_scratch_setup,
			unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
