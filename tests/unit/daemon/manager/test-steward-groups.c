/*
 * Which cgroups of a job the steward has held, where Slurm makes them late, removes them and makes them again. They
 * are plain directories here.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/util/mountinfo.h"
#include "daemon/keeper/keeper.h"
#include "daemon/manager/acts.h"
#include "daemon/manager/serve.h"
#include "daemon/manager/steward.h"

#define JOB 7
#define ME 1001
#define CHILD 4711

static struct play {
	const char *top; /* below which the hierarchies are */
	int n_reads;     /* of the table of mounts */
	int n_held[ACT_N_GROUPS];
	int refuse[ACT_N_GROUPS]; /* what the keeper says to holding it */
	int n_entered;
	struct steward k;
	struct serve s;
} play;

int __wrap_mountinfo_find_first(struct mountinfo_query *queries, size_t n);
int __wrap_mountinfo_find(struct mountinfo *m, const char *target, const char *type, const char *option);

int __wrap_mountinfo_find_first(struct mountinfo_query *queries, size_t n)
{
	play.n_reads++;
	for (size_t i = 0; i < n; i++) {
		queries[i].target[0] = '\0';
		if (queries[i].option)
			snprintf(queries[i].target, sizeof(queries[i].target), "%s/%s", play.top, queries[i].option);
	}
	return 0;
}

int __wrap_mountinfo_find(struct mountinfo *m, const char *target, const char *type, const char *option)
{
	play.n_reads++;
	return -ENOENT;
}

static int answer(struct act *a, const int *fds, size_t n_fds, int *out, size_t *n_outp)
{
	*n_outp = 0;
	if (a->kind == ACT_ENTER_GROUPS) {
		assert_int_equal(a->n[0], CHILD);
		play.n_entered++;
	}
	if (a->kind != ACT_HOLD_GROUP)
		return 0;
	if (play.refuse[a->n[0]] == 0)
		play.n_held[a->n[0]]++;
	return play.refuse[a->n[0]];
}

static void get_path(char *path, size_t size, enum act_group which, const char *below)
{
	snprintf(path, size, "%s/%s/slurm_n1%s", play.top, groups_to_string(which), below);
}

static void write_file(enum act_group which, const char *name, const char *text)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[PATH_MAX];

	get_path(path, sizeof(path), which, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
}

/* $job: the job's directory */
static void run(const char *what, enum act_group which)
{
	_cleanup_(freep) char *command = NULL;
	char job[PATH_MAX];

	get_path(job, sizeof(job), which, "/uid_1001/job_7");
	assert_true(asprintf(&command, "job=%s; %s", job, what) >= 0);
	assert_int_equal(system(command), 0);
}

static void make_group(enum act_group which)
{
	run("mkdir -p $job", which);
	write_file(which, "/uid_1001/job_7/tasks", "");
	if (which != ACT_GROUP_CPUS)
		return;
	write_file(which, "/uid_1001/job_7/cpuset.cpus", "0-8191\n");
	write_file(which, "/uid_1001/job_7/cpuset.mems", "0\n");
}

/* A directory that is made at once after another was removed may get its inode; those of cgroups do not. */
static void make_group_again(enum act_group which)
{
	run("mv $job $job.before", which);
	make_group(which);
	run("rm -r $job.before", which);
}

static void begin(void **state)
{
	play = (struct play){ .top = *state };
	play.s.k = &play.k;
	play.k.st.uid = ME;
	play.k.st.job_id = JOB;
	play.k.st.procs[0].pid = CHILD;
	for (enum act_group which = 0; which < ACT_N_GROUPS; which++)
		run("top=${job%/*/*}; rm -rf $top; mkdir -p $top", which);
}

static void assert_held(int memory, int cpus, int devices)
{
	assert_int_equal(play.n_held[ACT_GROUP_MEMORY], memory);
	assert_int_equal(play.n_held[ACT_GROUP_CPUS], cpus);
	assert_int_equal(play.n_held[ACT_GROUP_DEVICES], devices);
}

static void test_groups_are_held_as_they_come(void **state)
{
	begin(state);
	assert_int_equal(groups_look(&play.s), -ENOENT);
	assert_held(0, 0, 0);
	make_group(ACT_GROUP_MEMORY);
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 0, 0);
	make_group(ACT_GROUP_DEVICES);
	assert_int_equal(groups_look(&play.s), 0);
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 0, 1);
	assert_int_equal(play.n_entered, 2);
}

/* Slurm does so between two steps. Fails when a group that was held once is not looked for again. */
static void test_a_group_that_is_made_again_is_held_again(void **state)
{
	begin(state);
	for (enum act_group which = 0; which < ACT_N_GROUPS; which++)
		make_group(which);
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 1, 1);
	make_group_again(ACT_GROUP_CPUS);
	run("rm -r $job", ACT_GROUP_DEVICES);
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 2, 1);
	make_group(ACT_GROUP_DEVICES);
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 2, 2);
	assert_int_equal(play.n_entered, 3);
}

/* A process that goes there before gets ENOSPC. */
static void test_a_cpuset_is_left_until_slurm_has_filled_it(void **state)
{
	begin(state);
	make_group(ACT_GROUP_MEMORY);
	make_group(ACT_GROUP_CPUS);
	write_file(ACT_GROUP_CPUS, "/uid_1001/job_7/cpuset.mems", "\n");
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 0, 0);
	write_file(ACT_GROUP_CPUS, "/uid_1001/job_7/cpuset.mems", "0\n");
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 1, 0);
}

/* Fails when the result is that of finding the directory: then the job is told that its memory is charged. */
static void test_memory_that_cannot_be_held_is_not_charged(void **state)
{
	begin(state);
	make_group(ACT_GROUP_MEMORY);
	play.refuse[ACT_GROUP_MEMORY] = -EAGAIN;
	assert_int_equal(groups_look(&play.s), -EAGAIN);
	assert_int_equal(groups_look(&play.s), -EAGAIN);
	assert_held(0, 0, 0);
	play.refuse[ACT_GROUP_MEMORY] = 0;
	assert_int_equal(groups_look(&play.s), 0);
	assert_held(1, 0, 0);
	assert_int_equal(play.n_entered, 1);
}

static void test_each_look_reads_the_table_of_mounts_once(void **state)
{
	char path[PATH_MAX];

	begin(state);
	for (enum act_group which = 0; which < ACT_N_GROUPS; which++) {
		get_path(path, sizeof(path), which, "");
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(groups_look(&play.s), -ENODEV);
	assert_int_equal(play.n_reads, 1);
	make_group(ACT_GROUP_CPUS);
	assert_int_equal(groups_look(&play.s), -ENODEV);
	assert_held(0, 1, 0);
	assert_int_equal(play.n_reads, 2);
}

static int setup(void **state)
{
	acts_transport = answer;
	return unit_scratch_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_are_held_as_they_come),
		cmocka_unit_test(test_a_group_that_is_made_again_is_held_again),
		cmocka_unit_test(test_a_cpuset_is_left_until_slurm_has_filled_it),
		cmocka_unit_test(test_memory_that_cannot_be_held_is_not_charged),
		cmocka_unit_test(test_each_look_reads_the_table_of_mounts_once),
	};

	return cmocka_run_group_tests(tests, setup, unit_scratch_teardown);
}
