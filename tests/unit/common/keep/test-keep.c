#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/keep/keep.h"
#include "common/protocol/tier-name.h"
#include "common/util/clock.h"

/* A tier with the caller's place in it, and a directory of run directories. */
static struct keep open_scratch(void **state)
{
	static char run_dir[512];
	_cleanup_(fd_closep) int fd = open(*state, O_RDONLY | O_DIRECTORY);
	struct keep k = KEEP_INIT;
	char name[TIER_NAME_SIZE];

	assert_true(fd >= 0);
	snprintf(name, sizeof(name), TIER_NAME_KEEP "%u", geteuid());
	assert_int_equal(mkdirat(fd, name, 0700), 0);
	assert_int_equal(keep_open(&k, fd), 0);
	snprintf(run_dir, sizeof(run_dir), "%s/run", (char *)*state);
	assert_int_equal(mkdir(run_dir, 0700), 0);
	k.run_dir = run_dir;
	return k;
}

static void begin_job(const struct keep *k, unsigned job)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%u", k->run_dir, job);
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/t");
	assert_int_equal(mkdir(path, 0700), 0);
	strcat(path, "/data");
	assert_int_equal(mkdir(path, 0700), 0);
}

static void end_job(const struct keep *k, unsigned job)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/%u/t/data", k->run_dir, job);
	assert_int_equal(rmdir(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
}

/* "aaa…a" */
static const char *sum(char c)
{
	static char names[256][KEEP_NAME_SIZE];

	memset(names[(unsigned char)c], c, KEEP_NAME_SIZE - 1);
	return names[(unsigned char)c];
}

static bool is_there(const struct keep *k, const char *name)
{
	return faccessat(k->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static unsigned count(const struct keep *k)
{
	_cleanup_(dir_closep) DIR *dir = fdopendir(openat(k->fd, ".", O_RDONLY | O_DIRECTORY));
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	return n - 2;
}

/* Times count from the start of the machine, and a test may run a minute after it. */
static void set_age(const struct keep *k, const char *name, int64_t ms)
{
	const uint64_t t = (uint64_t)((int64_t)clock_ms() - ms);
	const struct timespec at = { (time_t)(t / 1000), (long)(t % 1000) * 1000000 };
	const struct timespec times[2] = { at, at };
	char path[KEEP_NAME_SIZE + 8];

	assert_true(ms < (int64_t)clock_ms());
	snprintf(path, sizeof(path), "%.64s/record", name);
	assert_int_equal(utimensat(k->fd, path, times, 0), 0);
}

/* One that was made by the job (0: by none that is known) and may stay for keep_ms. */
static void make(const struct keep *k, const char *name, uint64_t keep_ms, unsigned job)
{
	_cleanup_(kv_freep) struct kv *record = NULL;
	struct keep_entry e = KEEP_ENTRY_INIT;

	assert_int_equal(kv_new(&record), 0);
	kv_set(record, KEEP_KEY, name);
	kv_set_u64(record, KEEP_MS, keep_ms);
	assert_int_equal(keep_begin(k, name, &e.fd), 0);
	assert_int_equal(mkdirat(e.fd, KEEP_DATA, 0500), 0);
	if (job)
		assert_int_equal(keep_entry_take(&e, job), 0);
	assert_int_equal(keep_write_record(e.fd, record), 0);
	assert_int_equal(keep_finish(k, name), 0);
	close(e.fd);
}

static void sweep(const struct keep *k)
{
	assert_int_equal(keep_sweep(k, KEEP_MAX_MS, clock_ms() + 60000), 0);
}

static void test_what_is_kept_is_found(void **state)
{
	struct keep k = open_scratch(state);
	struct keep_entry e;

	assert_int_equal(keep_entry_open(&k, sum('a'), &e), -ENOENT);
	make(&k, sum('a'), 60000, 0);
	assert_int_equal(keep_entry_open(&k, sum('a'), &e), 0);
	assert_string_equal(kv_get(e.record, KEEP_KEY), sum('a'));
	assert_int_equal(kv_get_u64(e.record, KEEP_MS, 0), 60000);
	assert_true(e.used_ms <= clock_ms() && clock_ms() - e.used_ms < 30000);
	keep_entry_deinit(&e);
	keep_entry_deinit(&e);
	sweep(&k);
	assert_true(is_there(&k, sum('a')));
	keep_close(&k);
}

static void test_age(void **state)
{
	static const struct {
		uint64_t keep_ms;
		int64_t age_ms;
		bool stays;
	} cases[] = {
		{ 60000, 30000, true },
		{ 30000, 30001, false },
		{ 0, 0, false },
		{ 3600000, -3600000, false }, /* used in the future: by nobody that we know */
		{ UINT64_MAX, KEEP_MAX_MS - 60000, true },
		{ UINT64_MAX, KEEP_MAX_MS + 1, false }, /* whatever the user wrote */
	};
	struct keep k = open_scratch(state);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if ((int64_t)clock_ms() < cases[i].age_ms)
			continue; /* the machine is younger */
		make(&k, sum('a'), cases[i].keep_ms, 0);
		set_age(&k, sum('a'), cases[i].age_ms);
		sweep(&k);
		assert_int_equal(is_there(&k, sum('a')), cases[i].stays);
		if (cases[i].stays)
			assert_int_equal(keep_evict_oldest(&k, clock_ms() + 60000), 1);
		assert_int_equal(count(&k), 0);
	}
	keep_close(&k);
}

static void test_what_a_job_uses_stays(void **state)
{
	struct keep k = open_scratch(state);
	struct keep_entry e;

	begin_job(&k, 7);
	make(&k, sum('a'), 30000, 7);
	set_age(&k, sum('a'), 40000);
	sweep(&k);
	assert_true(is_there(&k, sum('a')));
	assert_int_equal(keep_lock(&k, clock_ms() + 60000), 0);
	assert_int_equal(keep_retire(&k, sum('a')), -EBUSY);
	keep_unlock(&k);
	assert_int_equal(keep_evict_oldest(&k, clock_ms() + 60000), 0);
	/* another job comes and goes; then the first ends, and the time begins */
	begin_job(&k, 8);
	assert_int_equal(keep_entry_open(&k, sum('a'), &e), 0);
	assert_int_equal(keep_entry_take(&e, 8), 0);
	assert_int_equal(keep_entry_take(&e, 8), 1);
	end_job(&k, 7);
	assert_true(keep_entry_is_used(&k, &e));
	end_job(&k, 8);
	set_age(&k, sum('a'), 60000);
	assert_false(keep_entry_is_used(&k, &e)); /* who looks changes nothing */
	keep_entry_deinit(&e);
	assert_int_equal(keep_entry_open(&k, sum('a'), &e), 0);
	assert_true(clock_ms() - e.used_ms >= 60000);
	keep_entry_deinit(&e);
	sweep(&k);
	assert_int_equal(keep_entry_open(&k, sum('a'), &e), 0);
	assert_true(clock_ms() - e.used_ms < 30000);
	keep_entry_deinit(&e);
	assert_int_equal(keep_lock(&k, clock_ms() + 60000), 0);
	assert_int_equal(keep_retire(&k, sum('a')), 0);
	keep_unlock(&k);
	assert_false(is_there(&k, sum('a')));
	keep_close(&k);
}

/* What has the name is another one by now. */
static void test_the_name_of_another(void **state)
{
	struct keep k = open_scratch(state);
	struct keep_entry e;

	make(&k, sum('a'), 600000, 0);
	assert_int_equal(keep_entry_open(&k, sum('a'), &e), 0);
	assert_true(keep_entry_has_name(&k, &e, sum('a')));
	assert_int_equal(keep_discard(&k, sum('a')), 0);
	assert_false(keep_entry_has_name(&k, &e, sum('a')));
	make(&k, sum('a'), 600000, 0);
	assert_false(keep_entry_has_name(&k, &e, sum('a')));
	keep_entry_deinit(&e);
	keep_close(&k);
}

/* Than when it was kept; and than what the user has written into the record. */
static void test_the_site_allows_less(void **state)
{
	struct keep k = open_scratch(state);

	make(&k, sum('a'), 3600000, 0);
	set_age(&k, sum('a'), 40000);
	assert_int_equal(keep_sweep(&k, 80000, clock_ms() + 60000), 0);
	assert_true(is_there(&k, sum('a')));
	assert_int_equal(keep_sweep(&k, 40000, clock_ms() + 60000), 0);
	assert_int_equal(count(&k), 0);
	keep_close(&k);
}

/* The record of what is used can't be read any more: it stays all the same. */
static void test_used_without_a_record(void **state)
{
	struct keep k = open_scratch(state);
	char path[KEEP_NAME_SIZE + 8];

	begin_job(&k, 7);
	make(&k, sum('a'), 1000, 7);
	snprintf(path, sizeof(path), "%.64s/record", sum('a'));
	assert_int_equal(unlinkat(k.fd, path, 0), 0);
	sweep(&k);
	assert_true(is_there(&k, sum('a')));
	end_job(&k, 7);
	sweep(&k);
	assert_int_equal(count(&k), 0);
	keep_close(&k);
}

static void test_an_earlier_boots_is_not_used(void **state)
{
	struct keep k = open_scratch(state);
	_cleanup_(fd_closep) int fd = -1;
	char path[KEEP_NAME_SIZE + 8];
	struct keep_entry e;

	make(&k, sum('a'), 60000, 0);
	snprintf(path, sizeof(path), "%.64s/record", sum('a'));
	fd = openat(k.fd, path, O_WRONLY | O_TRUNC);
	assert_true(write(fd, "key=a\0keep=60000\0boot=another\0", 30) == 30);
	assert_int_equal(keep_entry_open(&k, sum('a'), &e), -ESTALE);
	sweep(&k);
	assert_int_equal(count(&k), 0);
	keep_close(&k);
}

static void test_one_makes_it(void **state)
{
	struct keep k = open_scratch(state);
	int first = -1, second = -1;

	assert_int_equal(keep_begin(&k, sum('a'), &first), 0);
	assert_int_equal(keep_begin(&k, sum('a'), &second), -EBUSY);
	sweep(&k);
	assert_int_equal(keep_begin(&k, sum('a'), &second), -EBUSY);
	/* he was killed in the middle */
	assert_int_equal(mkdirat(first, KEEP_DATA, 0700), 0);
	close(first);
	assert_int_equal(keep_begin(&k, sum('a'), &second), 0);
	assert_int_equal(faccessat(second, KEEP_DATA, F_OK, 0), -1);
	assert_int_equal(keep_finish(&k, sum('a')), 0);
	close(second);
	assert_int_equal(keep_begin(&k, sum('a'), &second), 0);
	assert_int_equal(keep_finish(&k, sum('a')), -EEXIST);
	close(second);
	sweep(&k);
	assert_int_equal(count(&k), 0); /* that has no record */
	keep_close(&k);
}

static void test_what_is_nobodys_goes(void **state)
{
	struct keep k = open_scratch(state);

	assert_int_equal(mkdirat(k.fd, "mine", 0700), 0);
	assert_int_equal(mkdirat(k.fd, "mine/closed", 0), 0);
	assert_int_equal(symlinkat("/etc", k.fd, sum('b')), 0);
	assert_int_equal(mkdirat(k.fd, sum('A'), 0700), 0);
	assert_int_equal(mkdirat(k.fd, "old-1", 0700), 0);
	assert_int_equal(symlinkat("/etc", k.fd, "new-x"), 0);
	make(&k, sum('a'), 60000, 0);
	sweep(&k);
	assert_true(is_there(&k, sum('a')));
	assert_int_equal(count(&k), 1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	keep_close(&k);
}

static void test_the_oldest_goes_first(void **state)
{
	struct keep k = open_scratch(state);

	make(&k, sum('a'), 3600000, 0);
	make(&k, sum('b'), 3600000, 0);
	make(&k, sum('c'), 3600000, 0);
	set_age(&k, sum('a'), 1000);
	set_age(&k, sum('b'), 3000);
	set_age(&k, sum('c'), 2000);
	for (const char *c = "bca"; *c; c++) {
		assert_true(is_there(&k, sum(*c)));
		assert_int_equal(keep_evict_oldest(&k, clock_ms() + 60000), 1);
		assert_false(is_there(&k, sum(*c)));
	}
	assert_int_equal(keep_evict_oldest(&k, clock_ms() + 60000), 0);
	keep_close(&k);
}

static void test_whose_it_is(void **state)
{
	static const mode_t modes[] = { 0750, 0701, 0500, 0 };
	struct keep k = open_scratch(state), again = KEEP_INIT;
	_cleanup_(fd_closep) int fd = open(*state, O_RDONLY | O_DIRECTORY);

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		assert_int_equal(fchmod(k.fd, modes[i]), 0);
		assert_int_equal(keep_open(&again, fd),
				 geteuid() && !(modes[i] & 0400) ? -EACCES : -EPERM);
	}
	assert_int_equal(fchmod(k.fd, 0700), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(k.fd, 4242, 4242), 0);
		assert_int_equal(keep_open(&again, fd), -EPERM);
	}
	keep_close(&k);
}

/* Breaks where the user can hold off the clean-up by the mode of his place. */
static void test_a_place_that_was_opened_or_closed_is_emptied(void **state)
{
	static const mode_t modes[] = { 0777, 0500, 0 };
	_cleanup_(fd_closep) int fd = open(*state, O_RDONLY | O_DIRECTORY);
	struct keep k = open_scratch(state);

	assert_int_equal(keep_sweep_tier(fd, KEEP_MAX_MS, clock_ms() + 60000), 0);
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		make(&k, sum('a'), 3600000, 0);
		assert_int_equal(keep_sweep_tier(fd, KEEP_MAX_MS, clock_ms() + 60000), 0);
		assert_true(is_there(&k, sum('a')));
		assert_int_equal(fchmod(k.fd, modes[i]), 0);
		assert_int_equal(keep_sweep_tier(fd, KEEP_MAX_MS, clock_ms() + 60000), 0);
		assert_int_equal(count(&k), 0);
	}
	keep_close(&k);
}

static void test_a_lock_that_is_held_is_not_waited_for_ever(void **state)
{
	struct keep k = open_scratch(state);
	_cleanup_(fd_closep) int other = openat(k.fd, ".", O_RDONLY | O_DIRECTORY);

	assert_int_equal(flock(other, LOCK_EX), 0);
	assert_int_equal(keep_lock(&k, clock_ms() + 20), -ETIMEDOUT);
	assert_int_equal(keep_sweep(&k, 0, clock_ms() + 20), -ETIMEDOUT);
	assert_int_equal(flock(other, LOCK_UN), 0);
	assert_int_equal(keep_lock(&k, clock_ms() + 20), 0);
	keep_unlock(&k);
	keep_close(&k);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_scratch_setup, unit_scratch_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_kept_is_found),
		TEST(test_age),
		TEST(test_what_a_job_uses_stays),
		TEST(test_the_name_of_another),
		TEST(test_the_site_allows_less),
		TEST(test_used_without_a_record),
		TEST(test_an_earlier_boots_is_not_used),
		TEST(test_one_makes_it),
		TEST(test_what_is_nobodys_goes),
		TEST(test_the_oldest_goes_first),
		TEST(test_whose_it_is),
		TEST(test_a_place_that_was_opened_or_closed_is_emptied),
		TEST(test_a_lock_that_is_held_is_not_waited_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
