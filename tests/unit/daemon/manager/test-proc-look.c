/*
 * Which threads of a job are about to end, and which of them hang: daemon/manager/proc-look.c,
 * watch.c.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/manager/proc-look.h"
#include "daemon/manager/fuse-watch.h"

#define PLAIN 4194560U /* flags of a process that does not exit */
#define EXITING (PLAIN | 4U)

static void print_stat(char *buf, size_t size, const char *name, char state, unsigned flags,
		       unsigned pending)
{
	snprintf(buf, size,
		 "7 (%s) %c 1 7 7 0 -1 %u 10 11 12 13 14 15 16 17 20 0 1 0 777 9000 100 "
		 "18446744073709551615 1 2 3 0 0 %u 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 0\n",
		 name, state, flags, pending);
}

static void test_a_thread_that_exits_or_was_killed_is_about_to_end(void **state)
{
	static const struct {
		char state;
		unsigned flags, pending;
		bool asleep, ending;
	} cases[] = {
		{ 'S', PLAIN, 0, true, false },
		{ 'S', PLAIN | 8U, 0, true, true },	 /* io_uring is waited for */
		{ 'R', PLAIN | 0x10U, 0, false, false }, /* it is io_uring's */
		{ 'S', EXITING, 0, true, true },	 /* FLUSH: no signal reaches it any more */
		{ 'D', PLAIN, 0x100, true, true },	 /* SIGKILL */
		{ 'D', PLAIN, 0x4000, true, false },	 /* SIGTERM */
		{ 'D', PLAIN, 0, true, false },
		{ 'R', EXITING, 0x100, false, true }, /* it gets no CPU */
		{ 'Z', EXITING, 0, false, true },
		{ 'T', PLAIN, 0x100, false, true },
	};
	struct proc_thread t;
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_stat(text, sizeof(text), ") S 4 (", cases[i].state, cases[i].flags,
			   cases[i].pending);
		assert_int_equal(proc_look_parse_stat(text, &t), 0);
		assert_int_equal(t.start, 777);
		assert_int_equal(t.asleep, cases[i].asleep);
		assert_int_equal(t.ending, cases[i].ending);
		assert_int_equal(t.io, cases[i].flags == (PLAIN | 0x10U));
	}
	assert_int_equal(proc_look_parse_stat("", &t), -EPROTO);
	assert_int_equal(proc_look_parse_stat("7 (x) S 1 2", &t), -EPROTO);
}

static void test_switches_of_both_kinds_count(void **state)
{
	static const char text[] = "Name:\tUid: 5\nState:\tS (sleeping)\nUid:\t1000\t0\t0\t0\n"
				   "voluntary_ctxt_switches:\t30\nnonvoluntary_ctxt_switches:\t4\n";
	struct proc_thread t;

	assert_int_equal(proc_look_parse_status(text, &t), 0);
	assert_int_equal(t.uid, 1000);
	assert_int_equal(t.switches, 34);
	assert_int_equal(proc_look_parse_status("", &t), -EPROTO);
	assert_int_equal(proc_look_parse_status("Name:\tx\nUid:\t1\t1\n", &t), -EPROTO);
}

/* --- a pass through real threads
 * ------------------------------------------------------------------- */

static int open_proc(void)
{
	return open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* How many steps a pass takes, and whether tid is among the threads of uid that it finds. */
static unsigned go_through_of(uid_t uid, const char *group, pid_t tid, bool *foundp)
{
	struct proc_look l = PROC_LOOK_INIT;
	struct proc_thread t;
	unsigned n = 0;
	int r, fd = open_proc();

	*foundp = false;
	assert_int_equal(proc_look_begin(&l, fd, group, uid), 0);
	while ((r = proc_look_next(&l, &t)) != PROC_LOOK_END) {
		n++;
		*foundp = *foundp || (r == PROC_LOOK_THREAD && t.tid == tid);
	}
	proc_look_end(&l);
	proc_look_end(&l);
	close(fd);
	return n;
}

static unsigned go_through(const char *group, pid_t tid, bool *foundp)
{
	return go_through_of(getuid(), group, tid, foundp);
}

static void test_a_pass_finds_zombies_and_no_others(void **state)
{
	const pid_t pid = fork();
	bool found;
	siginfo_t i;

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &i, WEXITED | WNOWAIT), 0);
	assert_true(go_through(NULL, pid, &found) > 1);
	assert_true(found);
	go_through(NULL, getpid(), &found);
	assert_false(found);
	go_through_of(getuid() + 1, NULL, pid, &found);
	assert_false(found);
	go_through_of(PROC_LOOK_ANYBODY, NULL, pid, &found);
	assert_true(found);
	waitpid(pid, NULL, 0);
	go_through(NULL, pid, &found);
	assert_false(found);
}

/* What stands for a group here is a directory with a file `tasks`, as v1 has it, or cgroup.threads.
 */
static void test_groups_below_the_jobs_count(void **state)
{
	static const char *const names[] = { "tasks", "cgroup.threads" };
	char dir[] = "/tmp/stage-group-XXXXXX", path[128];
	const pid_t pid = fork();
	bool found;
	siginfo_t info;
	FILE *f;

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/step_0", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(go_through(dir, pid, &found), 0);
		snprintf(path, sizeof(path), "%s/step_0/%s", dir, names[i]);
		f = fopen(path, "w");
		assert_non_null(f);
		fprintf(f, "%d\n%d\n", getpid(), pid);
		fclose(f);
		assert_int_equal(go_through(dir, pid, &found), 2);
		assert_true(found);
		/* One that has become another user's is the job's yet. */
		assert_int_equal(go_through_of(getuid() + 1, dir, pid, &found), 2);
		assert_true(found);
		go_through(dir, getpid(), &found);
		assert_false(found);
		assert_int_equal(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/step_0", dir);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
	waitpid(pid, NULL, 0);
}

static void test_who_is_stopped_is_seen(void **state)
{
	const int fd = open_proc();
	const pid_t pid = fork();
	siginfo_t info;

	if (pid == 0)
		for (;;)
			pause();
	assert_false(proc_look_is_stopped(fd, pid));
	kill(pid, SIGSTOP);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
	assert_true(proc_look_is_stopped(fd, pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(proc_look_is_stopped(fd, pid));
	close(fd);
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void test_one_stopped_thread_is_seen(void **state)
{
	const int fd = open_proc();
	pid_t pid, tid = 0;
	char path[64];
	struct dirent *e;
	pthread_t thread;
	int status;
	DIR *dir;

	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, wait_for_ever, NULL);
		wait_for_ever(NULL);
	}
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	for (int i = 0; i < 1000 && !tid; i++) {
		usleep(1000);
		dir = opendir(path);
		while ((e = readdir(dir)))
			tid = atoi(e->d_name) > 0 && atoi(e->d_name) != pid ? atoi(e->d_name) : tid;
		closedir(dir);
	}
	assert_false(proc_look_is_stopped(fd, pid));
	assert_int_equal(ptrace(PTRACE_SEIZE, tid, 0, 0), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, 0, 0), 0);
	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_true(proc_look_is_stopped(fd, pid));
	kill(pid, SIGKILL);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
	close(fd);
}

/* A pipe tells that the child is there, and is closed when the test has looked. */
static void test_a_stopped_child_of_a_server_is_seen(void **state)
{
	const int fd = open_proc();
	int pair[2];
	pid_t pid, child = 0;
	char byte;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		child = fork();
		if (child == 0)
			for (;;)
				pause();
		(void)!write(pair[1], &child, sizeof(child));
		(void)!read(pair[1], &byte, 1);
		kill(child, SIGKILL);
		_exit(0);
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], &child, sizeof(child)), sizeof(child));
	assert_false(proc_look_is_stopped(fd, pid));
	kill(child, SIGSTOP);
	for (int i = 0; i < 1000 && !proc_look_is_stopped(fd, child); i++)
		usleep(1000);
	assert_true(proc_look_is_stopped(fd, pid));
	kill(child, SIGCONT);
	for (int i = 0; i < 1000 && proc_look_is_stopped(fd, child); i++)
		usleep(1000);
	assert_false(proc_look_is_stopped(fd, pid));
	close(pair[0]);
	waitpid(pid, NULL, 0);
	close(fd);
}

/* --- which hang
 * ------------------------------------------------------------------------------------- */

#define LIMIT_MS 1000

static const struct state job = { .uid = 1, .job_id = 1 };

static bool note(struct fuse_watch *w, pid_t tid, bool asleep, uint64_t switches, uint64_t now_ms)
{
	const struct proc_thread t = {
		.tid = tid, .start = 5, .switches = switches, .asleep = asleep, .ending = true
	};
	const bool hung = fuse_watch_note(w, &t, now_ms);

	fuse_watch_end_pass(w);
	return hung;
}

static void test_asleep_without_a_switch_for_the_whole_limit_is_hung(void **state)
{
	static struct fuse_watch w;

	fuse_watch_init(&w, NULL, &job, LIMIT_MS);
	assert_false(note(&w, 9, true, 3, 10000));
	assert_false(note(&w, 9, true, 3, 10999));
	assert_true(note(&w, 9, true, 3, 11000));
}

static void test_a_slow_thread_is_not_hung(void **state)
{
	static struct fuse_watch w;
	uint64_t now_ms = 10000;

	fuse_watch_init(&w, NULL, &job, LIMIT_MS);
	for (unsigned i = 0; i < 20; i++, now_ms += LIMIT_MS - 1) /* each answer wakes it up */
		assert_false(note(&w, 9, true, i, now_ms));
	for (unsigned i = 0; i < 20; i++, now_ms += LIMIT_MS) /* it waits for a CPU now and then */
		assert_false(note(&w, 9, i % 2, 20, now_ms));
	for (unsigned i = 0; i < 20; i++, now_ms += LIMIT_MS) /* it is another one each time */
		assert_false(note(&w, 100 + (pid_t)i, true, 20, now_ms));
}

static void test_a_thread_of_io_uring_may_run(void **state)
{
	static struct fuse_watch w;
	struct proc_thread t = { .tid = 9, .ending = true, .io = true };

	fuse_watch_init(&w, NULL, &job, LIMIT_MS);
	for (unsigned i = 0; i < 20; i++, t.switches++)
		assert_int_equal(fuse_watch_note(&w, &t, 10000 + i * LIMIT_MS / 5), i >= 10);
}

static void test_more_threads_than_places(void **state)
{
	static struct fuse_watch w;
	unsigned n_hung = 0;

	fuse_watch_init(&w, NULL, &job, LIMIT_MS);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 1; i <= 20000; i++) {
			const struct proc_thread t = { .tid = (pid_t)i,
						       .asleep = true,
						       .ending = true };

			n_hung += fuse_watch_note(&w, &t, 10000 + pass * LIMIT_MS);
		}
		fuse_watch_end_pass(&w);
	}
	assert_int_equal(n_hung, FUSE_WATCH_MAX_THREADS);
	assert_false(note(&w, 20001, true, 0, 20000)); /* of the pass before none is left */
	assert_int_equal(w.n_threads, 0);
	assert_false(note(&w, 20001, true, 0, 20000));
	assert_int_equal(w.n_threads, 1);
}

/* Threads of which each is woken up by its answers, more than there are places, come first. */
static void test_slow_threads_hide_none_that_hangs(void **state)
{
	static struct fuse_watch w;
	bool hung = false;

	fuse_watch_init(&w, NULL, &job, LIMIT_MS);
	for (unsigned pass = 0; pass < 10; pass++) {
		for (unsigned i = 1; i <= 4 * FUSE_WATCH_MAX_THREADS; i++) {
			const struct proc_thread t = {
				.tid = (pid_t)i, .switches = pass, .asleep = true, .ending = true
			};

			assert_false(fuse_watch_note(&w, &t, 10000 + pass * LIMIT_MS));
		}
		hung = note(&w, 100000, true, 3, 10000 + pass * LIMIT_MS) || hung;
	}
	assert_true(hung);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_that_exits_or_was_killed_is_about_to_end),
		cmocka_unit_test(test_switches_of_both_kinds_count),
		cmocka_unit_test(test_a_pass_finds_zombies_and_no_others),
		cmocka_unit_test(test_groups_below_the_jobs_count),
		cmocka_unit_test(test_who_is_stopped_is_seen),
		cmocka_unit_test(test_one_stopped_thread_is_seen),
		cmocka_unit_test(test_a_stopped_child_of_a_server_is_seen),
		cmocka_unit_test(test_asleep_without_a_switch_for_the_whole_limit_is_hung),
		cmocka_unit_test(test_a_slow_thread_is_not_hung),
		cmocka_unit_test(test_a_thread_of_io_uring_may_run),
		cmocka_unit_test(test_more_threads_than_places),
		cmocka_unit_test(test_slow_threads_hide_none_that_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
