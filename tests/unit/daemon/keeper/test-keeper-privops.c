/*
 * What a manager that somebody has taken over can't have root do: tests/unit/unit-privops.h does
 * privileged operations in this process. Each check fails where the bound that it names is left out
 * of daemon/keeper/.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/protocol/keeper-helper.h"
#include "common/util/fd.h"
#include "daemon/manager/helper-run.h"
#include "tests/unit/unit-privops.h"

#define SYSTEM_UID 490

static int do_text(enum privop_kind kind, uint32_t dir, const char *format, const char *top)
{
	struct privop a = { .kind = kind, .dir = dir };
	size_t n = 1;
	int fd = -1, r;

	snprintf(a.text, sizeof(a.text), format, top);
	r = privops_do(&a, &fd, &n);
	fd_closep(&fd);
	return r;
}

static void test_log_and_figures_are_where_the_site_wants_them_or_nowhere(void **state)
{
	/* before root knows the configuration */
	assert_int_equal(privops_do_numbers(PRIVOP_OPEN_LOG, 0, 0, 0), -EPERM);
	assert_int_equal(privops_do_numbers(PRIVOP_TEXT, 0, 0, 0), -EPERM);
	assert_int_equal(privops_do_numbers(PRIVOP_TEXT, 1, 0, 0), -EPERM);
}

static void test_no_group_but_ours_below_file_systems_of_cgroups(void **state)
{
	static const enum privop_kind kinds[] = { PRIVOP_HOLD_GROUP, PRIVOP_REMOVE_GROUP,
						  PRIVOP_JOIN_GROUP };
	struct stat st;

	assert_int_equal(stat(*state, &st), 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (st.st_uid == 0)
			assert_int_equal(do_text(kinds[i], 0, "%s/tasks", *state), -EPERM);
		assert_int_equal(do_text(kinds[i], 0, "", *state), -EPERM);
		assert_int_equal(
			do_text(kinds[i], 0, "/proc/self/root/sys/fs/cgroup/stage-data", *state),
			-EPERM);
		assert_int_equal(do_text(kinds[i], 0, "/sys/../sys/fs/cgroup/stage-data", *state),
				 -EPERM);
	}
}

static int spawn(uint32_t program, uid_t uid, int64_t flags, const char *task, int64_t n_words)
{
	struct privop a = { .kind = PRIVOP_SPAWN,
			    .name = program,
			    .uid = uid,
			    .gid = uid,
			    .n = { flags, 0, n_words } };
	int r;

	if (task)
		snprintf(a.text, sizeof(a.text), "%s", task);
	else
		memset(a.text, 'x', sizeof(a.text));
	r = privops_do(&a, NULL, NULL);
	if (r > 0)
		privops_do_numbers(PRIVOP_GO, 0, 0, 0);
	return r;
}

static void test_nothing_is_started_as_root_and_no_users_program_without_the_account(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(unit_keeper.programs); i++)
		unit_keeper.programs[i] = open("/bin/true", O_PATH | O_CLOEXEC);
	unit_keeper.uid = unit_keeper.gid = 65534;
	unit_keeper.job = 7;
	assert_int_equal(spawn(PRIVOP_PROGRAM_HELPER, 0, 0, "empty", 1), -EPERM);
	/* before the account is known */
	unit_keeper.account.r = -EINPROGRESS;
	assert_int_equal(spawn(PRIVOP_PROGRAM_DAEMON, 65534, 0, "", 0), -EPERM);
	assert_int_equal(spawn(PRIVOP_PROGRAM_WORKER, 65534, 0, "", 0), -EPERM);
	unit_keeper.account.r = 0;
	assert_int_equal(spawn(PRIVOP_PROGRAM_DAEMON, 65534, 0, "", 0), -EPERM);
	assert_int_equal(spawn(PRIVOP_N_PROGRAMS, 65534, 0, "empty", 1), -EPERM);
	/* words without an end, none, and too many */
	assert_int_equal(spawn(PRIVOP_PROGRAM_HELPER, 65534, 0, NULL, 2), -EPERM);
	assert_int_equal(spawn(PRIVOP_PROGRAM_HELPER, 65534, 0, "empty", 0), -EPERM);
	assert_int_equal(spawn(PRIVOP_PROGRAM_HELPER, 65534, 0, "empty", -1), -EPERM);
	assert_int_equal(spawn(PRIVOP_PROGRAM_HELPER, 65534, 0, "empty", PRIVOP_MAX_ARGS + 1),
			 -EPERM);
}

static void test_a_helper_does_tasks_of_the_list_as_whom_they_are_for(void **state)
{
	static const struct {
		const char *task;
		uid_t uid;
		int64_t flags;
	} cases[] = {
		{ "site", 65534, PRIVOP_SPAWN_SYSTEM },
		{ "account", 65534, PRIVOP_SPAWN_SYSTEM }, /* root's own questions */
		{ "site", 65534, 0 },
		{ "account", 65534, 0 },
		{ "empty", 65534, PRIVOP_SPAWN_SYSTEM },
		{ "path", 65534, 0 },
		{ "empty", SYSTEM_UID, 0 },
		{ "run", 65534, 0 },
		{ "", 65534, 0 },
		{ "emptyx", 65534, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(spawn(PRIVOP_PROGRAM_HELPER, cases[i].uid, cases[i].flags,
				       cases[i].task, 1),
				 -EPERM);
	if (geteuid() == 0)
		assert_true(spawn(PRIVOP_PROGRAM_HELPER, 65534, 0, "empty", 1) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(unit_keeper.programs); i++)
		fd_closep(&unit_keeper.programs[i]);
	unit_keeper.uid = unit_keeper.gid = unit_keeper.job = 0;
}

/* What the helper has written there does not count. Seen failing where root left out its part. */
static void test_root_says_which_programs_it_can_start(void **state)
{
	static const int opened[PRIVOP_N_PROGRAMS] = { [PRIVOP_PROGRAM_HELPER] = 5,
						       [PRIVOP_PROGRAM_DAEMON] = -EPERM,
						       [PRIVOP_PROGRAM_WORKER] = -ENOENT };
	struct helper_site site;

	memcpy(unit_keeper.programs, opened, sizeof(opened));
	unit_keeper.site.pid = 1; /* the helper has answered */
	assert_int_equal(helper_get_site(&site, 5000), 0);
	assert_int_equal(site.programs[PRIVOP_PROGRAM_HELPER], 0);
	assert_int_equal(site.programs[PRIVOP_PROGRAM_DAEMON], -EPERM);
	assert_int_equal(site.programs[PRIVOP_PROGRAM_WORKER], -ENOENT);
	unit_keeper.site.pid = 0;
	for (size_t i = 0; i < PRIVOP_N_PROGRAMS; i++)
		unit_keeper.programs[i] = -1;
}

static void test_numbers_out_of_their_lists_are_nothing(void **state)
{
	static const uint32_t odd[] = { PRIVOP_N_DIRS, 1000, UINT32_MAX };
	char name[64] = "x";

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		assert_true(privops_do_name(PRIVOP_REMOVE, odd[i], PRIVOP_NAME_SOCK, 0, 0, 0) < 0);
		assert_true(privops_do_name(PRIVOP_OPEN_FILE, PRIVOP_DIR_RUN,
					    PRIVOP_N_FILES + odd[i], 0, 0, 0) < 0);
		privop_print_name(name, PRIVOP_N_NAMES + odd[i] % 1000, (int64_t[2]){ 0 });
		assert_string_equal(name, "");
	}
	assert_int_equal(privops_do_numbers(0, 0, 0, 0), -ENOSYS);
	assert_int_equal(privops_do_numbers(PRIVOP_N, 0, 0, 0), -ENOSYS);
	assert_int_equal(privops_do_numbers(PRIVOP_EXITED, 0, 0, 0), -ENOSYS);
	assert_int_equal(privops_do_numbers(UINT32_MAX, 0, 0, 0), -ENOSYS);
	assert_true(privops_open(PRIVOP_OPEN_BASE, PRIVOP_DIR_TIER, 0) == -EINVAL);
}

static void test_without_a_job_nothing_is_mounted_or_given_to_a_user(void **state)
{
	const uint32_t dir = PRIVOP_DIR_FREE;

	unit_keeper.dirs[dir] = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(privops_do_name(PRIVOP_MEMORY, dir, PRIVOP_NAME_MEMORY, 4096, 10, 0),
			 -EPERM);
	assert_int_equal(privops_do_name(PRIVOP_SLOT, dir, PRIVOP_NAME_SLOT, 0, 1, 0), -EINVAL);
	assert_int_equal(privops_do_name(PRIVOP_MAKE_DIR, dir, PRIVOP_NAME_TIER, 1, 0, 0), -EPERM);
	unit_keeper.uid = unit_keeper.gid = 65534;
	assert_int_equal(privops_do_name(PRIVOP_SLOT, dir, PRIVOP_NAME_MEMORY, 0, 1, 0), -EINVAL);
	assert_int_equal(privops_do_name(PRIVOP_SLOT, dir, PRIVOP_NAME_SLOT, 0, 0, 0), -EINVAL);
	/* no connection but of a slot, and none where nothing is mounted */
	assert_int_equal(privops_do_name(PRIVOP_ABORT, dir, PRIVOP_NAME_SLOT, -1, 0, 0), -EINVAL);
	assert_int_equal(
		privops_do_name(PRIVOP_ABORT, dir, PRIVOP_NAME_SLOT, RUNDIR_MAX_SLOTS, 0, 0),
		-EINVAL);
	assert_int_equal(privops_do_name(PRIVOP_ABORT, dir, PRIVOP_NAME_SLOT, 1, 0, 0), -ENOENT);
	assert_int_equal(
		privops_do_name(PRIVOP_SLOT, dir, PRIVOP_NAME_SLOT, 0, PRIVOP_MAX_FDS + 1, 0),
		-EINVAL);
	/* the tier is root's, link by link */
	assert_int_equal(do_text(PRIVOP_OPEN_TIER, 0, "/tmp", NULL), -EPERM);
	assert_int_equal(do_text(PRIVOP_OPEN_TIER, 0, "tmp", NULL), -EPERM);
	assert_int_equal(do_text(PRIVOP_OPEN_TIER, 0, "/usr/none", NULL), -ENOENT);
	unit_keeper.uid = unit_keeper.gid = 0;
	fd_closep(&unit_keeper.dirs[dir]);
}

static bool is_mounted(const char *top, const char *name)
{
	char path[4096];
	struct stat a, b;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	assert_int_equal(stat(top, &a), 0);
	assert_int_equal(stat(path, &b), 0);
	return a.st_dev != b.st_dev;
}

static void mount_at(const char *top, const char *name, bool mounted)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	assert_int_equal(mkdir(path, 0755), 0);
	if (mounted)
		assert_int_equal(mount("none", path, "tmpfs", 0, NULL), 0);
}

static void test_what_is_mounted_outside_of_a_directory_stays(void **state)
{
	const uint32_t dir = PRIVOP_DIR_TIER;
	char path[4096];

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	mount_at(*state, "other", true);
	mount_at(*state, "tier", false);
	mount_at(*state, "tier/stage-data-1", false);
	mount_at(*state, "tier/stage-data-1/b", true);
	mount_at(*state, "tier/foreign", true);
	snprintf(path, sizeof(path), "%s/tier/link", (char *)*state);
	assert_int_equal(symlink("../other", path), 0);
	snprintf(path, sizeof(path), "%s/tier", (char *)*state);
	unit_keeper.dirs[dir] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	do_text(PRIVOP_DETACH_BELOW, dir, "../other", NULL);
	do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/../../other", NULL);
	do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/b/../../../other", NULL);
	do_text(PRIVOP_DETACH_BELOW, dir, "link", NULL);
	do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/../foreign", NULL);
	assert_int_equal(do_text(PRIVOP_DETACH_BELOW, dir, "foreign", NULL), -EPERM);
	assert_true(is_mounted(*state, "tier/foreign"));
	assert_true(is_mounted(*state, "other"));
	assert_true(is_mounted(*state, "tier/stage-data-1/b"));
	/* What a user's server would be asked for */
	mount_at(*state, "tier/stage-data-1/b/c", true);
	mount_at(*state, "tier/stage-data-1/b/c/d", true);
	assert_int_equal(do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/b/c", NULL), -EXDEV);
	assert_int_equal(do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/b/c/d", NULL), -EXDEV);
	assert_true(is_mounted(*state, "tier/stage-data-1/b/c/d"));
	assert_int_equal(do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/b", NULL), 0);
	assert_false(is_mounted(*state, "tier/stage-data-1/b"));
	assert_int_equal(do_text(PRIVOP_DETACH_BELOW, dir, "stage-data-1/b", NULL), -EINVAL);
	fd_closep(&unit_keeper.dirs[dir]);
	snprintf(path, sizeof(path), "%s/other", (char *)*state);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
	snprintf(path, sizeof(path), "%s/tier/foreign", (char *)*state);
	assert_int_equal(umount2(path, MNT_DETACH), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_log_and_figures_are_where_the_site_wants_them_or_nowhere),
		cmocka_unit_test(test_no_group_but_ours_below_file_systems_of_cgroups),
		cmocka_unit_test(
			test_nothing_is_started_as_root_and_no_users_program_without_the_account),
		cmocka_unit_test(test_a_helper_does_tasks_of_the_list_as_whom_they_are_for),
		cmocka_unit_test(test_root_says_which_programs_it_can_start),
		cmocka_unit_test(test_numbers_out_of_their_lists_are_nothing),
		cmocka_unit_test(test_without_a_job_nothing_is_mounted_or_given_to_a_user),
		cmocka_unit_test(test_what_is_mounted_outside_of_a_directory_stays),
	};

	privops_transport = unit_privop_here;
	unit_keeper.system_uid = unit_keeper.system_gid = SYSTEM_UID;
	return cmocka_run_group_tests(tests, unit_scratch_setup, unit_scratch_teardown);
}
