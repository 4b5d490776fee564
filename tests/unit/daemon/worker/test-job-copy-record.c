/*
 * A node that removes the record of a dead maker may be late: another node has done that already,
 * and makes the copy. Its record was removed, and a third node made the copy, too.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>

#include "daemon/worker/job-copy-record.h"

static const struct job_copy_record dead = { .maker = "n1", .state = "making", .beat = 7 };
static const struct job_copy_record alive = { .maker = "n2", .state = "making", .beat = 1 };
static const struct job_copy_record newer = { .maker = "n3", .state = "making", .beat = 1 };

static const struct job_copy_record *before; /* what others write before the rename */
static const struct job_copy_record *after;  /* and after it */
static int dir = -1;

static void put(int at, const struct job_copy_record *record)
{
	_cleanup_(fd_closep) int fd = -1;

	unlinkat(at, JOB_COPY_STATE, 0);
	fd = openat(at, JOB_COPY_STATE, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	if (*record->maker)
		assert_int_equal(job_copy_record_write(fd, record), 0);
}

int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	int r;

	if (before)
		put(dir, before);
	r = __real_renameat(from_dir, from, to_dir, to);
	if (after)
		put(dir, after);
	return r;
}

static int open_scratch(void **state)
{
	if (unit_scratch_setup(state) < 0)
		return -1;
	dir = open(*state, O_RDONLY | O_DIRECTORY);
	before = after = NULL;
	return dir < 0 ? -1 : 0;
}

static int close_scratch(void **state)
{
	fd_closep(&dir);
	return unit_scratch_teardown(state);
}

static void expect_maker(const char *maker)
{
	struct job_copy_record now;
	int r = job_copy_record_read(dir, JOB_COPY_STATE, &now);

	assert_int_equal(r, maker ? 0 : -ENOENT);
	assert_string_equal(now.maker, maker ? maker : "");
	assert_int_equal(faccessat(dir, "left.n9", F_OK, 0), -1);
}

static void test_the_record_of_a_dead_maker_is_removed(void **state)
{
	(void)state;
	put(dir, &dead);
	assert_int_equal(job_copy_record_remove(dir, "n9", &dead), 0);
	expect_maker(NULL);
	assert_int_equal(job_copy_record_remove(dir, "n9", &dead), 0);
}

static void test_the_record_of_the_next_maker_stays(void **state)
{
	(void)state;
	put(dir, &dead);
	before = &alive;
	assert_int_equal(job_copy_record_remove(dir, "n9", &dead), 0);
	expect_maker("n2");
}

static void test_a_record_that_its_maker_has_written_again_stays(void **state)
{
	struct job_copy_record again = dead;

	(void)state;
	again.beat++;
	put(dir, &again);
	assert_int_equal(job_copy_record_remove(dir, "n9", &dead), 0);
	expect_maker("n1");
}

static void test_a_record_without_content_yet_stays(void **state)
{
	static const struct job_copy_record empty;
	struct job_copy_record now;

	(void)state;
	put(dir, &dead);
	before = &empty;
	assert_int_equal(job_copy_record_remove(dir, "n9", &dead), 0);
	assert_int_equal(job_copy_record_read(dir, JOB_COPY_STATE, &now), -EAGAIN);
	/* unless it is that for too long, which the caller has seen */
	assert_int_equal(job_copy_record_remove(dir, "n9", &now), 0);
	before = NULL;
	assert_int_equal(job_copy_record_remove(dir, "n9", &now), 0);
	expect_maker(NULL);
}

static void test_a_newer_record_is_not_overwritten(void **state)
{
	(void)state;
	put(dir, &dead);
	before = &alive;
	after = &newer;
	assert_int_equal(job_copy_record_remove(dir, "n9", &dead), 0);
	expect_maker("n3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_record_of_a_dead_maker_is_removed,
						open_scratch, close_scratch),
		cmocka_unit_test_setup_teardown(test_the_record_of_the_next_maker_stays,
						open_scratch, close_scratch),
		cmocka_unit_test_setup_teardown(
			test_a_record_that_its_maker_has_written_again_stays, open_scratch,
			close_scratch),
		cmocka_unit_test_setup_teardown(test_a_record_without_content_yet_stays,
						open_scratch, close_scratch),
		cmocka_unit_test_setup_teardown(test_a_newer_record_is_not_overwritten,
						open_scratch, close_scratch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
