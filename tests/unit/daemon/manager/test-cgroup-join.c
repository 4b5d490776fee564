/*
 * Which cgroups of a job the manager has held, where Slurm makes them late, removes them and makes
 * them again. They are plain directories here.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/util/clock.h"
#include "common/util/mountinfo.h"
#include "daemon/keeper/keeper.h"
#include "daemon/manager/job-cgroup-memory.h"
#include "daemon/manager/privops.h"
#include "daemon/manager/serve.h"
#include "daemon/manager/manager.h"

#define JOB 7
#define ME 1001
#define CHILD 4711

static struct play {
	const char *top; /* below which the hierarchies are */
	int n_reads;	 /* of the table of mounts */
	int n_held[PRIVOP_N_GROUPS];
	int refuse[PRIVOP_N_GROUPS]; /* what the keeper says to holding it */
	int n_entered;
	char joined[PATH_MAX]; /* below top */
	bool is_v2;
	bool is_missing; /* the memory hierarchy is not mounted yet */
	struct manager k;
	struct serve s;
} play;

int __wrap_mountinfo_find_first(struct mountinfo_query *queries, size_t n);
int __wrap_mountinfo_find(struct mountinfo *m, const char *target, const char *type,
			  const char *option);

int __wrap_mountinfo_find_first(struct mountinfo_query *queries, size_t n)
{
	play.n_reads++;
	for (size_t i = 0; i < n; i++) {
		queries[i].target[0] = '\0';
		if (play.is_v2 && !queries[i].option)
			snprintf(queries[i].target, sizeof(queries[i].target), "%s/v2", play.top);
		else if (!play.is_v2 && queries[i].option &&
			 !(play.is_missing && strcmp(queries[i].option, "memory") == 0))
			snprintf(queries[i].target, sizeof(queries[i].target), "%s/%s", play.top,
				 queries[i].option);
	}
	return 0;
}

int __wrap_mountinfo_find(struct mountinfo *m, const char *target, const char *type,
			  const char *option)
{
	play.n_reads++;
	snprintf(m->target, sizeof(m->target), "%s/v2", play.top);
	return play.is_v2 && !strcmp(type, "cgroup2") ? 0 : -ENOENT;
}

static int answer(struct privop *a, int *out, size_t *n_outp)
{
	*n_outp = 0;
	if (a->kind == PRIVOP_ENTER_GROUPS) {
		assert_int_equal(a->n[0], CHILD);
		play.n_entered++;
	}
	if (a->kind == PRIVOP_JOIN_GROUP && strcmp(strrchr(a->text, '/'), "/tasks") == 0)
		return -ENOENT; /* v1's alone */
	if (a->kind == PRIVOP_JOIN_GROUP)
		snprintf(play.joined, sizeof(play.joined), "%s", a->text + strlen(play.top) + 1);
	if (a->kind != PRIVOP_HOLD_GROUP)
		return 0;
	if (play.refuse[a->n[0]] == 0)
		play.n_held[a->n[0]]++;
	return play.refuse[a->n[0]];
}

static void get_path(char *path, size_t size, enum privop_group which, const char *below)
{
	snprintf(path, size, "%s/%s/slurm_n1%s", play.top, cgroup_join_to_string(which), below);
}

static void write_file(enum privop_group which, const char *name, const char *text)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[PATH_MAX];

	get_path(path, sizeof(path), which, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
}

/* $job: the job's directory */
static void run(const char *what, enum privop_group which)
{
	_cleanup_(freep) char *command = NULL;
	char job[PATH_MAX];

	get_path(job, sizeof(job), which, "/uid_1001/job_7");
	assert_true(asprintf(&command, "job=%s; %s", job, what) >= 0);
	assert_int_equal(system(command), 0);
}

static void make_group(enum privop_group which)
{
	run("mkdir -p $job", which);
	write_file(which, "/uid_1001/job_7/tasks", "");
	if (which != PRIVOP_GROUP_CPUS)
		return;
	write_file(which, "/uid_1001/job_7/cpuset.cpus", "0-8191\n");
	write_file(which, "/uid_1001/job_7/cpuset.mems", "0\n");
}

/* A directory that is made at once after another was removed may get its inode; those of cgroups do
 * not. */
static void make_group_again(enum privop_group which)
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
	for (enum privop_group which = 0; which < PRIVOP_N_GROUPS; which++)
		run("top=${job%/*/*}; rm -rf $top; mkdir -p $top", which);
}

static void assert_held(int memory, int cpus, int devices)
{
	assert_int_equal(play.n_held[PRIVOP_GROUP_MEMORY], memory);
	assert_int_equal(play.n_held[PRIVOP_GROUP_CPUS], cpus);
	assert_int_equal(play.n_held[PRIVOP_GROUP_DEVICES], devices);
}

static void test_groups_are_held_as_they_come(void **state)
{
	begin(state);
	assert_int_equal(cgroup_join_look(&play.s), -ENOENT);
	assert_held(0, 0, 0);
	make_group(PRIVOP_GROUP_MEMORY);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 0, 0);
	make_group(PRIVOP_GROUP_DEVICES);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 0, 1);
	assert_int_equal(play.n_entered, 2);
}

/* Slurm does so between two steps. Fails when a group that was held once is not looked for again.
 */
static void test_a_group_that_is_made_again_is_held_again(void **state)
{
	begin(state);
	for (enum privop_group which = 0; which < PRIVOP_N_GROUPS; which++)
		make_group(which);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 1, 1);
	make_group_again(PRIVOP_GROUP_CPUS);
	run("rm -r $job", PRIVOP_GROUP_DEVICES);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 2, 1);
	make_group(PRIVOP_GROUP_DEVICES);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 2, 2);
	assert_int_equal(play.n_entered, 3);
}

/* A process that goes there before gets ENOSPC. */
static void test_a_cpuset_is_left_until_slurm_has_filled_it(void **state)
{
	begin(state);
	make_group(PRIVOP_GROUP_MEMORY);
	make_group(PRIVOP_GROUP_CPUS);
	write_file(PRIVOP_GROUP_CPUS, "/uid_1001/job_7/cpuset.mems", "\n");
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 0, 0);
	write_file(PRIVOP_GROUP_CPUS, "/uid_1001/job_7/cpuset.mems", "0\n");
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 1, 0);
}

/* Fails when the result is that of finding the directory: then the job is told that its memory is
 * charged. */
static void test_memory_that_cannot_be_held_is_not_charged(void **state)
{
	begin(state);
	make_group(PRIVOP_GROUP_MEMORY);
	play.refuse[PRIVOP_GROUP_MEMORY] = -EAGAIN;
	assert_int_equal(cgroup_join_look(&play.s), -EAGAIN);
	assert_int_equal(cgroup_join_look(&play.s), -EAGAIN);
	assert_held(0, 0, 0);
	play.refuse[PRIVOP_GROUP_MEMORY] = 0;
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(1, 0, 0);
	assert_int_equal(play.n_entered, 1);
}

static void test_the_table_of_mounts_is_read_until_all_are_known(void **state)
{
	char path[PATH_MAX];

	begin(state);
	for (enum privop_group which = 0; which < PRIVOP_N_GROUPS; which++) {
		get_path(path, sizeof(path), which, "");
		assert_int_equal(rmdir(path), 0);
	}
	play.is_missing = true;
	assert_int_equal(cgroup_join_look(&play.s), -ENODEV);
	assert_int_equal(play.n_reads, 1);
	make_group(PRIVOP_GROUP_CPUS);
	assert_int_equal(cgroup_join_look(&play.s), -ENODEV);
	assert_held(0, 1, 0);
	assert_int_equal(play.n_reads, 2);
	play.is_missing = false;
	make_group(PRIVOP_GROUP_MEMORY);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_int_equal(play.n_reads, 3);
	make_group(PRIVOP_GROUP_DEVICES);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cgroup_join_look(&play.s), 0);
		assert_held(1, 1, 1);
		assert_int_equal(play.n_reads, 3);
	}
	make_group_again(PRIVOP_GROUP_MEMORY);
	assert_int_equal(cgroup_join_look(&play.s), 0);
	assert_held(2, 1, 1);
	assert_int_equal(play.n_reads, 3);
}

/* What stagingd is told of the job's limit now; -2: nothing. */
static int64_t tell_limit(void)
{
	struct keeper_msg msg = { 0 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	play.s.sock = pair[0];
	serve_look_for_memory(&play.s);
	if (recv(pair[1], &msg, sizeof(msg), MSG_DONTWAIT) < 0)
		msg.arg0 = -2;
	close(pair[0]);
	close(pair[1]);
	return msg.arg0;
}

/* Slurm makes a group and writes its limit after that. Seen failing: the job was planned with the
 * node's memory. */
static void test_the_limit_is_waited_for_until_slurm_has_written_it(void **state)
{
	static const struct {
		bool is_v2;
		const char *limit, *used, *unlimited, *job, *task;
	} cases[] = {
		{ false, "memory.limit_in_bytes", "memory.usage_in_bytes", "9223372036854771712",
		  "memory/slurm_n1/uid_1001/job_7", "step_batch/task_0" },
		{ true, "memory.max", "memory.current", "max",
		  "v2/system.slice/slurmstepd.scope/job_7", "step_batch/user/task_0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases) * 2; i++) {
		const bool ends_with_a_task = i % 2;
		_cleanup_(freep) char *early = NULL, *late = NULL;
		int64_t told;

		begin(state);
		play.is_v2 = cases[i / 2].is_v2;
		play.s.begin_ms = clock_ms();
		assert_true(asprintf(&early,
				     "cd %s && rm -rf v2 && mkdir -p %s && cd %s && echo %s >%s && "
				     "echo 4096 >%s",
				     play.top, cases[i / 2].job, cases[i / 2].job,
				     cases[i / 2].unlimited, cases[i / 2].limit,
				     cases[i / 2].used) >= 0);
		assert_true(asprintf(&late,
				     "cd %s/%s && if test %d = 1; then mkdir -p %s; else echo "
				     "10485760 >%s; fi",
				     play.top, cases[i / 2].job, ends_with_a_task,
				     cases[i / 2].task, cases[i / 2].limit) >= 0);
		assert_int_equal(system(early), 0);
		assert_int_equal(tell_limit(), -2);
		assert_int_equal(tell_limit(), -2);
		assert_int_equal(system(late), 0);
		told = tell_limit();
		/* A job with tasks and without a limit has none. */
		if (ends_with_a_task)
			assert_true(told > 10485760);
		else
			assert_int_equal(told, 10485760);
	}
}

/* systemd ends what is in slurmd's own group with slurmd, unless KillMode=process. Seen failing:
 * with KillMode=mixed a restart of slurmd ended staging. */
static void test_a_keeper_of_a_prolog_joins_the_group_of_slurms_own(void **state)
{
	static const struct {
		bool is_v2;
		const char *scopes, *node, *joined;
	} cases[] = {
		{ true, "slurmstepd.scope", "n1", "slurmstepd.scope" },
		{ true, "n10_slurmstepd.scope n1_slurmstepd.scope slurmstepd.scope", "n1",
		  "n1_slurmstepd.scope" },
		{ true, "n10_slurmstepd.scope", "n1", NULL }, /* another slurmd's */
		{ true, "slurmstepd.scope", NULL, "slurmstepd.scope" },
		{ true, "", "n1", NULL },
		{ false, "slurmstepd.scope", "n1", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *make = NULL, *expect = NULL;

		begin(state);
		play.is_v2 = cases[i].is_v2;
		assert_true(asprintf(&make,
				     "cd %s && rm -rf v2 && mkdir -p v2/system.slice && "
				     "cd v2/system.slice && for scope in %s; do "
				     "mkdir -p $scope/system $scope/job_7; done",
				     play.top, cases[i].scopes) >= 0);
		assert_int_equal(system(make), 0);
		job_cgroup_leave_service(cases[i].node);
		assert_true(asprintf(&expect, "v2/system.slice/%s/system/cgroup.procs",
				     cases[i].joined ?: "") >= 0);
		assert_string_equal(play.joined, cases[i].joined ? expect : "");
	}
}

static void write_limits(const char *limit)
{
	write_file(PRIVOP_GROUP_MEMORY, "/uid_1001/job_7/memory.limit_in_bytes", limit);
	write_file(PRIVOP_GROUP_MEMORY, "/uid_1001/job_7/memory.usage_in_bytes", "4096\n");
}

/* After a long prolog, or on a slow node, staging has begun without it. Seen failing: the tmpfs
 * kept the node's size, because nobody looked again, and a late limit was not read. */
static void test_a_limit_that_comes_late_counts_from_then_on(void **state)
{
	static const bool group_is_late[] = { false, true };
	int64_t told;

	for (size_t i = 0; i < ARRAY_SIZE(group_is_late); i++) {
		begin(state);
		play.s.begin_ms = clock_ms() - 60 * 1000;
		if (group_is_late[i])
			assert_int_equal(tell_limit(), -1);
		make_group(PRIVOP_GROUP_MEMORY);
		write_limits("9223372036854771712\n");
		told = tell_limit();
		assert_true(group_is_late[i] ? told == -2 : told > 10485760);
		assert_int_equal(tell_limit(), -2);
		play.s.cgroups_end_ms = 1;
		assert_true(serve_get_tick(&play.s) > 0);
		write_limits("10485760\n");
		assert_int_equal(tell_limit(), 10485760);
		assert_int_equal(tell_limit(), -2);
	}
}

/* Without a worker, an idle keeper is to sleep. */
static void test_a_job_without_groups_is_not_looked_at_for_ever(void **state)
{
	char path[PATH_MAX];

	begin(state);
	for (enum privop_group which = 0; which < PRIVOP_N_GROUPS; which++) {
		get_path(path, sizeof(path), which, "");
		assert_int_equal(rmdir(path), 0);
	}
	play.k.st.procs[0].pid = 0;
	play.s.begin_ms = clock_ms() - 60 * 1000;
	assert_int_equal(tell_limit(), -1);
	assert_int_equal(serve_get_tick(&play.s), -1);
}

static int setup(void **state)
{
	privops_transport = answer;
	return unit_scratch_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_are_held_as_they_come),
		cmocka_unit_test(test_a_group_that_is_made_again_is_held_again),
		cmocka_unit_test(test_a_cpuset_is_left_until_slurm_has_filled_it),
		cmocka_unit_test(test_memory_that_cannot_be_held_is_not_charged),
		cmocka_unit_test(test_the_limit_is_waited_for_until_slurm_has_written_it),
		cmocka_unit_test(test_the_table_of_mounts_is_read_until_all_are_known),
		cmocka_unit_test(test_a_keeper_of_a_prolog_joins_the_group_of_slurms_own),
		cmocka_unit_test(test_a_limit_that_comes_late_counts_from_then_on),
		cmocka_unit_test(test_a_job_without_groups_is_not_looked_at_for_ever),
	};

	return cmocka_run_group_tests(tests, setup, unit_scratch_teardown);
}
