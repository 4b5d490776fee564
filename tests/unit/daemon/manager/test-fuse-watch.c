/* Whose threads a pass goes through: daemon/manager/fuse-watch.c. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/manager/mounts.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/fuse-watch.h"

#define ME 1001
#define GROUP "/freezer/slurm/uid_1001/job_7"

static struct {
	struct state st;
	struct fuse_watch w;
	int found; /* what the look for the group answers */
	bool stopped;
	unsigned n_passes;
	char group[PATH_MAX]; /* of the last pass; "": by uid */
	uid_t uid;
} play;

int __wrap_job_cgroup_find(const char *controller, const struct job_cgroup_job *job, char *buf,
			   size_t size);
int __wrap_job_cgroup_find(const char *controller, const struct job_cgroup_job *job, char *buf,
			   size_t size)
{
	snprintf(buf, size, "%s", play.found < 0 ? "" : GROUP);
	return play.found;
}

int __wrap_privops_open(enum privop_kind kind, uint32_t dir, uint32_t name);
int __wrap_privops_open(enum privop_kind kind, uint32_t dir, uint32_t name)
{
	return open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int __wrap_mounts_open_waiting(const struct jobdir *d, uint32_t slot);
int __wrap_mounts_open_waiting(const struct jobdir *d, uint32_t slot)
{
	const int fd = memfd_create("waiting", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, "1\n", 2, 0), 2);
	return fd;
}

bool __wrap_proc_look_is_stopped(int fd, pid_t pid);
bool __wrap_proc_look_is_stopped(int fd, pid_t pid)
{
	return play.stopped;
}

int __wrap_proc_look_begin(struct proc_look *l, int fd, const char *group, uid_t uid);
int __wrap_proc_look_begin(struct proc_look *l, int fd, const char *group, uid_t uid)
{
	play.n_passes++;
	play.uid = uid;
	snprintf(play.group, sizeof(play.group), "%s", group ? group : "");
	return 0;
}

static int begin(void **state)
{
	memset(&play, 0, sizeof(play));
	play.st = (struct state){ .uid = ME, .job_id = 7 };
	play.st.procs[0].pid = getpid();
	fuse_watch_init(&play.w, NULL, &play.st, 1000);
	return 0;
}

static int end(void **state)
{
	fuse_watch_deinit(&play.w);
	return 0;
}

/* A look, for whose pass the group's is found or not */
static void look(int found)
{
	play.found = found;
	play.n_passes = 0;
	play.w.next_ms = 0;
	fuse_watch_look(&play.w, 1);
}

static void test_without_cgroups_the_users_threads_count(void **state)
{
	look(-ENODEV);
	assert_int_equal(play.n_passes, 1);
	assert_string_equal(play.group, "");
	assert_int_equal(play.uid, ME);
}

/* Else threads of the user's other jobs would count, and abort a mount of this job. Seen failing:
 * the pass went through all threads of the user. */
static void test_a_group_that_was_found_is_not_replaced_by_the_user(void **state)
{
	static const int failures[] = { -ENOENT, -ENODEV, -EMFILE };

	look(0);
	assert_int_equal(play.n_passes, 1);
	assert_string_equal(play.group, GROUP);
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
		look(failures[i]);
		assert_int_equal(play.n_passes, 0);
	}
	look(0);
	assert_int_equal(play.n_passes, 1);
	assert_string_equal(play.group, GROUP);
}

static void test_while_a_server_is_stopped_others_count(void **state)
{
	play.stopped = true;
	look(0);
	assert_string_equal(play.group, "/freezer/slurm/uid_1001");
	assert_int_equal(play.uid, PROC_LOOK_ANYBODY);
	look(-ENOENT);
	assert_int_equal(play.n_passes, 1);
	assert_string_equal(play.group, "");
	assert_int_equal(play.uid, PROC_LOOK_ANYBODY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_without_cgroups_the_users_threads_count, begin,
						end),
		cmocka_unit_test_setup_teardown(
			test_a_group_that_was_found_is_not_replaced_by_the_user, begin, end),
		cmocka_unit_test_setup_teardown(test_while_a_server_is_stopped_others_count, begin,
						end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
