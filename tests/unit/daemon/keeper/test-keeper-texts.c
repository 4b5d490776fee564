#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <signal.h>
#include <sys/syscall.h>

#include "common/util/mountinfo.h"
#include "daemon/keeper/keeper.h"
#include "daemon/manager/helper-run.h"
#include "daemon/manager/job-cgroup-memory.h"
#include "daemon/manager/state.h"
#include "tests/unit/unit-privops.h"

static void test_stat_lines(void **state)
{
	static const char rest[] = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 19 20";
	static const struct {
		const char *name;
		int expect;
	} cases[] = {
		{ "5 (cat) S", 0 },    { "5 (a) R 9 (b c) S", 0 }, /* the name is the user's */
		{ "5 ()) Z) S", 0 },   { "5 (a\n) S) S", 0 },
		{ "5 (cat", -EPROTO }, { "", -EPROTO },
	};
	uint64_t start;
	char line[256], s;
	pid_t parent;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		snprintf(line, sizeof(line), "%s%s", cases[i].name, cases[i].expect ? "" : rest);
		start = 0;
		assert_int_equal(proc_parse_stat(line, &start, &s, &parent), cases[i].expect);
		if (cases[i].expect)
			continue;
		assert_int_equal(start, 777);
		assert_int_equal(s, 'S');
		assert_int_equal(parent, 1);
	}
}

static struct state_proc look(pid_t pid)
{
	struct privop a = { .kind = PRIVOP_LOOK, .n = { pid } };

	assert_true(privops_do(&a, NULL, NULL) >= 0);
	return (struct state_proc){ pid, (uint64_t)a.n[1] };
}

static void test_own_process_is_alive_and_a_reused_pid_is_not(void **state)
{
	struct state_proc p = look(getpid());

	assert_true(state_proc_is_alive(&p));
	/* root signals none of its own but keepers */
	assert_int_equal(state_proc_signal(&p, SIGCONT), geteuid() == 0 ? -EPERM : 0);
	p.start++;
	assert_false(state_proc_is_alive(&p));
	assert_int_equal(state_proc_signal(&p, 0), -EPERM); /* whether or not it is there */
	assert_int_equal(state_proc_signal(&p, SIGCONT), -ESRCH);
	assert_int_equal(state_proc_signal(&(struct state_proc){ 0 }, SIGCONT), -ESRCH);
	assert_int_equal(state_proc_signal(&(struct state_proc){ 1, 0 }, SIGCONT), -ESRCH);
	assert_int_equal(state_proc_signal(&(struct state_proc){ 1, 1 }, SIGCONT), -ESRCH);
}

/* Fails when a pid is signalled that is no child, or the manager's. */
static void test_without_a_start_only_a_child_is_signalled(void **state)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	unit_keeper.manager = pid;
	assert_int_equal(privops_do_numbers(PRIVOP_KILL, pid, 0, SIGTERM), -ESRCH);
	unit_keeper.manager = 0;
	assert_int_equal(privops_do_numbers(PRIVOP_KILL, getpid(), 0, SIGCONT), -ESRCH);
	assert_int_equal(privops_do_numbers(PRIVOP_KILL, getppid(), 0, SIGCONT), -ESRCH);
	assert_int_equal(privops_do_numbers(PRIVOP_KILL, pid, 0, SIGTERM), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(privops_do_numbers(PRIVOP_KILL, pid, 0, SIGTERM), -ESRCH);
}

static void *stay(void *arg)
{
	char c;

	return read(*(int *)arg, &c, 1) < 0 ? arg : NULL;
}

/* Its first thread ends, the other one waits until fd ends. */
static void leave_a_thread(int fd)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, stay, &fd) == 0)
		syscall(SYS_exit, 0);
	_exit(1);
}

static char get_state(pid_t pid)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[32], line[1024];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = '\0';
	return n > 0 ? strrchr(line, ')')[2] : '?';
}

/* As one that was killed while a thread of it hangs in a read. Fails when a zombie is dead whatever
 * threads it has. */
static void test_a_zombie_with_a_thread_is_alive(void **state)
{
	struct state_proc p;
	int fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		close(fds[1]);
		leave_a_thread(fds[0]);
	}
	close(fds[0]);
	for (int i = 0; i < 5000 && get_state(pid) != 'Z'; i++)
		usleep(1000);
	assert_int_equal(get_state(pid), 'Z');
	p = look(pid);
	assert_true(state_proc_is_alive(&p));
	close(fds[1]);
	for (int i = 0; i < 5000 && state_proc_is_alive(&p); i++)
		usleep(1000);
	assert_false(state_proc_is_alive(&p)); /* a zombie, since nobody has reaped it */
	assert_int_equal(get_state(pid), 'Z');
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_mountinfo_lines(void **state)
{
	struct mountinfo m;

	assert_int_equal(mountinfo_parse(&m, "36 35 0:52 / /run/stage\\040data/7/t rw,nosuid "
					     "shared:1 master:2 - tmpfs stage-data rw,size=5k"),
			 0);
	assert_int_equal(m.minor, 52);
	assert_string_equal(m.target, "/run/stage data/7/t");
	assert_string_equal(m.type, "tmpfs");
	assert_string_equal(m.options, "rw,size=5k");
	assert_int_equal(mountinfo_parse(&m, "36 35 0:52 / /a\\134b\\0 rw - fuse.x y rw"), 0);
	assert_string_equal(m.target, "/a\\b\\0");
	assert_int_equal(mountinfo_parse(&m, "36 35 0:52 / /a rw"), -EPROTO);
	/* blanks to isspace(3), bytes of a name to the kernel */
	assert_int_equal(mountinfo_parse(&m, "36 35 0:52 /r\r/x /a\vb\f rw - fuse.x y\rz rw,z\n"),
			 0);
	assert_string_equal(m.target, "/a\vb\f");
	assert_string_equal(m.options, "rw,z");
	assert_int_equal(mountinfo_parse(&m, "x 35 0:52 / /a rw - a b c"), -EPROTO);
	assert_int_equal(mountinfo_parse(&m, ""), -EPROTO);
	assert_int_equal(mountinfo_find(&m, "/nowhere", NULL, NULL), -ENOENT);
	assert_int_equal(mountinfo_find(&m, "/proc", "proc", "rw"), 0);
	assert_int_equal(mountinfo_find(&m, "/proc", "tmpfs", NULL), -ENOENT);
}

static void test_what_is_above_a_job(void **state)
{
	static const struct {
		const char *path, *above; /* NULL: not in a job */
	} cases[] = {
		{ "/slurm/uid_1/job_2/step_0", "/" },
		{ "/slurm_n1/uid_1/job_2", "/" },
		{ "/site/slurm/uid_1/job_2/step_batch/task_0", "/site" },
		{ "/system.slice/slurmstepd.scope/job_2/step_0/slurm",
		  "/system.slice/slurmstepd.scope" },
		{ "/system.slice/n1_slurmstepd.scope/job_2", "/system.slice/n1_slurmstepd.scope" },
		{ "/site.slice/slurmstepd.scope/s2YDM87YNK1900/step_batch/user/task_0",
		  "/site.slice/slurmstepd.scope" },
		{ "/system.slice/slurmstepd.scope/a_future_name/step_0",
		  "/system.slice/slurmstepd.scope" },
		{ "/system.slice/slurmstepd.scope/system", NULL },
		{ "/system.slice/slurmstepd.scope", NULL },
		{ "/system.slice/slurmd.service", NULL },
		{ "/", NULL },
	};
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		strcpy(path, cases[i].path);
		assert_int_equal(job_cgroup_parse_above(path), cases[i].above ? 0 : -ENOENT);
		assert_string_equal(path, cases[i].above ? cases[i].above : cases[i].path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stat_lines),
		cmocka_unit_test(test_own_process_is_alive_and_a_reused_pid_is_not),
		cmocka_unit_test(test_without_a_start_only_a_child_is_signalled),
		cmocka_unit_test(test_a_zombie_with_a_thread_is_alive),
		cmocka_unit_test(test_mountinfo_lines),
		cmocka_unit_test(test_what_is_above_a_job),
	};

	privops_transport = unit_privop_here;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
