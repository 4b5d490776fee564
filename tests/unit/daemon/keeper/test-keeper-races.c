/*
 * What others do to a job's directory between two calls of a clean-up. They come in by the calls
 * themselves (-Wl,--wrap): each test says at which one, and what happens there.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/protocol/rundir.h"
#include "common/util/clock.h"
#include "daemon/manager/breaker.h"
#include "daemon/manager/clean.h"
#include "daemon/manager/jobdir.h"
#include "daemon/manager/mounts.h"
#include "tests/unit/unit-privops.h"
#include "tests/unit/unit-state.h"

#include "stage-build.h"

#define JOB "4711"
#define DIR_OF_JOB STAGE_RUN_DIR "/" JOB
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

static void (*before)(const char *call, const char *name);
static void (*after)(const char *call, int dirfd, const char *name);
static pid_t tester;

int __real_openat64(int dirfd, const char *name, int flags, int mode);
int __wrap_openat64(int dirfd, const char *name, int flags, int mode);
int __real_renameat(int fromfd, const char *from, int tofd, const char *to);
int __wrap_renameat(int fromfd, const char *from, int tofd, const char *to);
int __real_unlinkat(int dirfd, const char *name, int flags);
int __wrap_unlinkat(int dirfd, const char *name, int flags);

int __wrap_openat64(int dirfd, const char *name, int flags, int mode)
{
	int r, e;

	if (before)
		before("openat", name);
	r = __real_openat64(dirfd, name, flags, mode);
	e = errno;
	if (after)
		after("openat", dirfd, name);
	errno = e;
	return r;
}

int __wrap_renameat(int fromfd, const char *from, int tofd, const char *to)
{
	int r = __real_renameat(fromfd, from, tofd, to), e = errno;

	if (after)
		after("renameat", tofd, to);
	errno = e;
	return r;
}

int __wrap_unlinkat(int dirfd, const char *name, int flags)
{
	int r = __real_unlinkat(dirfd, name, flags), e = errno;

	if (after)
		after("unlinkat", dirfd, name);
	errno = e;
	return r;
}

static bool have_node(void)
{
	static int have = -1;

	if (have < 0)
		have = geteuid() == 0 && strncmp(STAGE_RUN_DIR, "/run/", 5) == 0 &&
		       unshare(CLONE_NEWNS) == 0 &&
		       mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0;
	return have && mount("tmpfs", "/run", "tmpfs", 0, "mode=0755") == 0;
}

static int set_up(void **state)
{
	before = NULL;
	after = NULL;
	privops_transport = unit_privop_here;
	if (!have_node())
		*state = NULL;
	else if (mkdir(STAGE_RUN_DIR, 0711) < 0 || mkdir(DIR_OF_JOB, 0711) < 0)
		return -1;
	else
		*state = (void *)&have_node;
	return 0;
}

static int tear_down(void **state)
{
	return *state && umount2("/run", MNT_DETACH) < 0 ? -1 : 0;
}

#define NEED_NODE()                                                                                \
	do {                                                                                       \
		if (!*state)                                                                       \
			skip();                                                                    \
	} while (0)

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

static int clean(void)
{
	_cleanup_(fd_closep) int base = jobdir_open_base(false, NULL);
	struct jobdir_id id = { .job_id = 4711 };
	const struct clean_options o = { .timeout_ms = 5000 };

	assert_true(base >= 0);
	return clean_job(&id, &o, NULL);
}

/* --- the user mounts something on the job's tmpfs while it is opened ------------------------- */

static void cover(const char *call, const char *name)
{
	if (strcmp(name, RUNDIR_MEMORY) == 0)
		assert_int_equal(mount("none", DIR_OF_JOB "/t", "ramfs", 0, NULL), 0);
}

static void uncover(const char *call, int dirfd, const char *name)
{
	if (strcmp(name, RUNDIR_MEMORY) != 0)
		return;
	assert_int_equal(umount2(DIR_OF_JOB "/t", MNT_DETACH), 0);
	before = NULL;
	after = NULL;
}

/* Red when what was opened is taken for what mountinfo says: it could be of a server of the user's,
 * who answers as whom the clean-up is to act. */
static void test_what_is_mounted_for_a_moment_is_not_taken_for_the_tmpfs(void **state)
{
	_cleanup_(fd_closep) int dir = -1, fd = -1;
	struct jobdir d = JOBDIR_INIT;
	struct stat is;

	NEED_NODE();
	assert_int_equal(mkdir(DIR_OF_JOB "/t", 0711), 0);
	assert_int_equal(mount("none", DIR_OF_JOB "/t", "tmpfs", 0, "uid=4001"), 0);
	d.fd = dir = open(DIR_OF_JOB, DIR_FLAGS);
	unit_keeper.dirs[d.dir = PRIVOP_DIR_FREE] = dup(dir);
	before = cover;
	after = uncover;
	fd = mounts_open_memory(&d, clock_ms() + 5000);
	fd_closep(&unit_keeper.dirs[d.dir]);
	assert_true(fd >= 0);
	assert_null(before);
	assert_int_equal(fstat(fd, &is), 0);
	assert_int_equal(is.st_uid, 4001);
}

/* Not in the keeper's child that waits for the unmounting: a mount on top looks as if it were done.
 */
static void cover_again(const char *call, int dirfd, const char *name)
{
	if (getpid() == tester && strcmp(name, RUNDIR_MEMORY) == 0)
		assert_int_equal(mount("none", DIR_OF_JOB "/t", "ramfs", 0, NULL), 0);
}

/* Red without the deadline: whoever mounts faster than we unmount is waited for without end. */
static void test_who_mounts_again_and_again_is_not_waited_for(void **state)
{
	_cleanup_(fd_closep) int dir = -1;
	struct jobdir d = JOBDIR_INIT;

	NEED_NODE();
	assert_int_equal(mkdir(DIR_OF_JOB "/t", 0711), 0);
	d.fd = dir = open(DIR_OF_JOB, DIR_FLAGS);
	unit_keeper.dirs[d.dir = PRIVOP_DIR_FREE] = dup(dir);
	tester = getpid();
	after = cover_again;
	assert_int_equal(mounts_open_memory(&d, clock_ms() + 50), -ETIMEDOUT);
	after = NULL;
	fd_closep(&unit_keeper.dirs[d.dir]);
}

/* Red when the owner of a file system is believed that the user has mounted: he would be anybody.
 */
static void test_the_owner_is_that_of_the_tmpfs_itself(void **state)
{
	_cleanup_(fd_closep) int fd = -1;
	struct statx st;

	NEED_NODE();
	assert_int_equal(mkdir("/run/t", 0711), 0);
	assert_int_equal(mount("none", "/run/t", "tmpfs", 0, "mode=0711"), 0);
	fd = open("/run/t", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mounts_get_owner(fd, &st), -ENOENT);
	assert_int_equal(mkdir("/run/t/data", 0700), 0);
	assert_int_equal(chown("/run/t/data", 4001, 4002), 0);
	assert_int_equal(mounts_get_owner(fd, &st), 0);
	assert_int_equal(st.stx_uid, 4001);
	assert_int_equal(st.stx_gid, 4002);
	assert_int_equal(mount("none", "/run/t/data", "tmpfs", 0, "uid=4003"), 0);
	assert_int_equal(mounts_get_owner(fd, &st), -EXDEV);
	assert_int_equal(umount2("/run/t", MNT_DETACH), 0);
	assert_int_equal(mounts_get_owner(fd, &st), 0);
	assert_int_equal(st.stx_uid, 4001);
}

/* --- a reaper has opened the directory before its lock goes --------------------------------- */

static pid_t reaper;

static void lock_again(const char *call, int dirfd, const char *name)
{
	int fd, told[2];
	char byte;

	if (strcmp(call, "unlinkat") != 0 || strcmp(name, RUNDIR_LOCK) != 0)
		return;
	after = NULL;
	assert_int_equal(pipe(told), 0);
	reaper = fork();
	if (reaper == 0) {
		fd = openat(dirfd, RUNDIR_LOCK, O_RDWR | O_CREAT, 0600);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || write(told[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	close(told[1]);
}

/* Red when a clean-up that another has overtaken calls it a failure. What is left is the other's.
 */
static void test_a_directory_that_another_sees_to_is_no_failure(void **state)
{
	NEED_NODE();
	touch(DIR_OF_JOB "/" RUNDIR_LOCK);
	after = lock_again;
	assert_int_equal(clean(), 0);
	assert_null(after);
	assert_int_equal(access(DIR_OF_JOB, F_OK), -1);
	kill(reaper, SIGKILL);
	waitpid(reaper, NULL, 0);
}

/* Red when each directory that stays is taken for another's. */
static void test_a_directory_that_nobody_sees_to_is_a_failure(void **state)
{
	NEED_NODE();
	touch(DIR_OF_JOB "/" RUNDIR_LOCK);
	touch(DIR_OF_JOB "/of-nobody");
	assert_int_equal(clean(), -ENOTEMPTY);
}

/* --- the job's next run comes between one tier and the next --------------------------------- */

static void begin_again(const char *call, int dirfd, const char *name)
{
	if (strcmp(call, "renameat") != 0 || strncmp(name, "stage-data-" JOB ".", 16) != 0)
		return;
	assert_int_equal(mkdir(STAGE_RUN_DIR "/.trash", 0700), 0); /* once */
	assert_int_equal(rename(DIR_OF_JOB, STAGE_RUN_DIR "/.trash/" JOB ".1"), 0);
	assert_int_equal(mkdir(DIR_OF_JOB, 0711), 0);
	assert_int_equal(mkdir("/run/b/stage-data-" JOB "/of-the-next-run", 0700), 0);
}

/* Red when only the first tier is asked about. */
static void test_the_next_run_keeps_what_it_has_in_tiers(void **state)
{
	static struct state st = { .job_id = 4711, .uid = 4001, .gid = 4001, .ending = true };
	_cleanup_(fd_closep) int record = -1;

	NEED_NODE();
	for (const char *const *tier = (const char *const[]){ "/run/a", "/run/b", NULL }; *tier;
	     tier++) {
		char path[64];

		assert_int_equal(mkdir(*tier, 0755), 0);
		snprintf(path, sizeof(path), "%s/stage-data-" JOB, *tier);
		assert_int_equal(mkdir(path, 0700), 0);
		strcpy(state_find_tier(&st, "")->path, *tier);
	}
	record = open(DIR_OF_JOB "/state", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	state_get_boot(st.boot);
	assert_int_equal(unit_write_state(record, &st), 0);
	after = begin_again; /* in a child */
	(void)clean();
	after = NULL;
	assert_int_equal(access(STAGE_RUN_DIR "/.trash", F_OK), 0);
	assert_int_equal(access("/run/a/stage-data-" JOB, F_OK), -1);
	assert_int_equal(access("/run/b/stage-data-" JOB "/of-the-next-run", F_OK), 0);
	assert_int_equal(access(DIR_OF_JOB, F_OK), 0);
}

/* --- many crashes ----------------------------------------------------------------------------- */

/* Red when only the file's first records are read, which are of long ago. */
static void test_the_last_crashes_count(void **state)
{
	_cleanup_(fd_closep) int base = -1;
	const uint64_t old = clock_ms() + 1000000000; /* of an earlier boot */
	FILE *f;

	NEED_NODE();
	base = jobdir_open_base(false, NULL);
	f = fopen(STAGE_RUN_DIR "/" BREAKER_COUNT_FILE, "we");
	assert_non_null(f);
	for (int i = 0; i < 100; i++)
		assert_int_equal(fwrite(&old, sizeof(old), 1, f), 1);
	fclose(f);
	for (int i = 0; i < BREAKER_LIMIT; i++) {
		assert_int_equal(access(STAGE_RUN_DIR "/" BREAKER_FILE, F_OK), -1);
		breaker_count();
		usleep(2000);
	}
	assert_int_equal(access(STAGE_RUN_DIR "/" BREAKER_FILE, F_OK), 0);
	breaker_reset();
	assert_int_equal(access(STAGE_RUN_DIR "/" BREAKER_FILE, F_OK), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_what_is_mounted_for_a_moment_is_not_taken_for_the_tmpfs),
		TEST(test_who_mounts_again_and_again_is_not_waited_for),
		TEST(test_the_owner_is_that_of_the_tmpfs_itself),
		TEST(test_a_directory_that_another_sees_to_is_no_failure),
		TEST(test_a_directory_that_nobody_sees_to_is_a_failure),
		TEST(test_the_next_run_keeps_what_it_has_in_tiers),
		TEST(test_the_last_crashes_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
