#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/util/fd.h"
#include "daemon/manager/breaker.h"
#include "tests/unit/unit-privops.h"
#include "tests/unit/unit-state.h"

static int open_scratch(void **state)
{
	return open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The file `state` of dirfd, which need not be there. */
static int read_record(int dirfd, struct state *st)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, "state", O_RDONLY | O_CLOEXEC);

	return state_read(fd, st);
}

static int write_record(int dirfd, const struct state *st)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, "state",
					     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	return unit_write_state(fd, st);
}

static ssize_t read_text(int dirfd, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, "state", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, buf, size - 1);

	if (n >= 0)
		buf[n] = '\0';
	return n;
}

static void write_file(int dirfd, const char *name, const void *data, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
					     0600);

	assert_int_equal(fd_write_all(fd, data, size), 0);
}

/* The greatest record there is still fits. */
static void fill(struct state *st)
{
	memset(st, 0, sizeof(*st));
	st->job_id = 4294967294U;
	st->restart = 3;
	st->uid = 4001;
	st->gid = 4002;
	st->ending = true;
	st->keeper = (struct state_proc){ 4194303, UINT64_MAX };
	state_get_boot(st->boot);
	strcpy(st->sluid, "s2YDM87YNK1900");
	for (size_t i = 0; i < STATE_MAX_PROCS; i++) {
		struct state_proc *p = state_find_proc(st, 0);

		assert_non_null(p);
		*p = (struct state_proc){ 4194303 - (int)i, UINT64_MAX };
	}
	for (size_t i = 0; i < STATE_MAX_TIERS; i++) {
		struct state_tier *t = state_find_tier(st, "");

		assert_non_null(t);
		snprintf(t->path, sizeof(t->path), "/local disk/a:b,%zu", i);
		t->as_user = i % 2;
	}
}

static void test_write_then_read_is_the_same(void **state)
{
	static struct state a, b;
	static char first[65536], second[65536];
	_cleanup_(fd_closep) int dirfd = open_scratch(state);
	ssize_t n;

	fill(&a);
	assert_null(state_find_proc(&a, 0));
	assert_null(state_find_tier(&a, ""));
	assert_int_equal(write_record(dirfd, &a), 0);
	assert_int_equal(read_record(dirfd, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	n = read_text(dirfd, first, sizeof(first));
	assert_int_equal(write_record(dirfd, &b), 0);
	assert_int_equal(read_text(dirfd, second, sizeof(second)), n);
	assert_memory_equal(first, second, (size_t)n);
	assert_true(state_is_current(&b));
	strcpy(b.boot, "another");
	assert_false(state_is_current(&b));
	state_find_proc(&b, 4194303)->pid = 0;
	assert_ptr_equal(state_find_proc(&b, 0), &b.procs[0]);
}

#define STDIO_BUFFER 4096

/* From here on whoever writes a whole buffer of stdio's is told that the disk is full. */
static void fill_disk_for_large_writes(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, STDIO_BUFFER, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { ARRAY_SIZE(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(1);
}

/* Its end took the place of the last record: of several writes only what the last one said counted.
 */
static void test_a_record_whose_beginning_was_lost_is_none(void **state)
{
	static struct state a, b;
	_cleanup_(fd_closep) int dirfd = open_scratch(state);
	int status, fd;
	pid_t pid;

	a.job_id = 7;
	state_get_boot(a.boot);
	assert_int_equal(write_record(dirfd, &a), 0);
	fill(&b);
	pid = fork();
	if (pid == 0) {
		fill_disk_for_large_writes();
		fd = openat(dirfd, "state.tmp", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		_exit(-unit_write_state(fd, &b));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), ENOSPC);
	assert_int_equal(read_record(dirfd, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
}

#define HEAD "version=2\njob=1\nrestart=0\nuid=5\ngid=6\nboot=-\nkeeper=0:0\nending=0\nfailed=0\n"

#define NUL_BOOT                                                                                   \
	"version=2\njob=1\nrestart=0\nuid=5\ngid=6\nboot=\0-\nkeeper=0:0\nending=0\nfailed="       \
	"0\nend\n"

/* A whole record as the first version that was installed writes it: changed here, it can't be read
 * after an upgrade. */
#define OF_VERSION(version) BEGIN(version) "cgroup=/sys/fs/cgroup/memory/job_17/stage-data\nend\n"
#define BEGIN(version)                                                                             \
	"version=" version "\njob=17\nrestart=1\nuid=4001\ngid=4002\n"                             \
	"boot=01234567-89ab-cdef-0123-456789abcdef\nkeeper=100:2000\nending=0\nfailed=1\n"         \
	"proc=101:2001\ntier=1:/ssd/17\n"

static void test_damage_reads_as_nothing(void **state)
{
	static const struct {
		const char *data;
		size_t size;
	} cases[] = {
		{ "", 0 },
		{ "version=2", 9 },				  /* torn */
		{ "version=3\njob=1\n", 16 },			  /* torn, and of the future */
		{ OF_VERSION("1"), sizeof(OF_VERSION("1")) - 1 }, /* none was ever installed */
		{ "job=1\n", 6 },				  /* no version */
		{ HEAD, sizeof(HEAD) - 1 },			  /* no end */
		{ "\xff\xfe", 3 },
		{ NUL_BOOT, sizeof(NUL_BOOT) - 1 },
	};
	static struct state st, zero;
	_cleanup_(fd_closep) int dirfd = open_scratch(state);

	assert_int_equal(read_record(dirfd, &st), -EBADF);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(&st, 'x', sizeof(st));
		write_file(dirfd, "state", cases[i].data, cases[i].size);
		assert_int_equal(read_record(dirfd, &st), -EPROTO);
		assert_memory_equal(&st, &zero, sizeof(st));
	}
}

static void test_records_of_other_versions_are_read(void **state)
{
	static const char first[] = OF_VERSION("2"), ours[] = BEGIN("2") "end\n";
	static const char later[] =
		"version=3\njob=17\nrestart=1\nuid=4001\ngid=4002\n"
		"boot=01234567-89ab-cdef-0123-456789abcdef\nkeeper=100:2000\nending=0\nfailed=1\n"
		"lease=1:/ssd\nproc=101:2001\nproc\ntier=1:/ssd/17\n"
		"cgroup=/sys/fs/cgroup/memory/job_17/stage-data\nnumbers=7\nend\n";
	static struct state a, b;
	static char again[sizeof(ours) + 1];
	_cleanup_(fd_closep) int dirfd = open_scratch(state);

	write_file(dirfd, "state", first, sizeof(first) - 1);
	assert_int_equal(read_record(dirfd, &a), 0);
	assert_int_equal(a.job_id, 17);
	assert_int_equal(a.keeper.pid, 100);
	assert_int_equal(a.keeper.start, 2000);
	assert_string_equal(a.tiers[0].path, "/ssd/17");
	write_file(dirfd, "state", later, sizeof(later) - 1);
	assert_int_equal(read_record(dirfd, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	/* And what is written can be read by the first, which finds the group by itself. */
	assert_int_equal(write_record(dirfd, &b), 0);
	assert_int_equal(read_text(dirfd, again, sizeof(again)), sizeof(ours) - 1);
	assert_memory_equal(again, ours, sizeof(ours) - 1);
}

static void test_nonsense_in_a_record_is_left_out(void **state)
{
	static const char data[] = HEAD
		"proc=1:1\nproc=-2:3\nproc=0:1\nproc=7:8\nproc=9\nx\n"
		"sluid=../../x\ntier=1:relative\ntier=1:/o k\ntier=/no\ncgroup=/c d\nend\n";
	static struct state st;
	_cleanup_(fd_closep) int dirfd = open_scratch(state);
	size_t n = 0;

	write_file(dirfd, "state", data, sizeof(data) - 1);
	assert_int_equal(read_record(dirfd, &st), 0);
	assert_int_equal(st.uid, 5);
	assert_string_equal(st.sluid, "");
	for (size_t i = 0; i < STATE_MAX_PROCS; i++)
		if (st.procs[i].pid) {
			assert_int_equal(st.procs[i].pid, 7);
			n++;
		}
	assert_int_equal(n, 1);
	assert_string_equal(st.tiers[0].path, "/o k");
	assert_string_equal(st.tiers[1].path, "");
}

static bool is_open(int dirfd)
{
	return faccessat(dirfd, BREAKER_FILE, F_OK, 0) == 0;
}

static void test_breaker_opens_at_the_third_recent_crash(void **state)
{
	_cleanup_(fd_closep) int dirfd = open_scratch(state);
	uint64_t later = clock_ms() + 1000000;

	privops_transport = unit_privop_here;
	unit_keeper.dirs[PRIVOP_DIR_RUN] = dirfd;
	write_file(dirfd, BREAKER_COUNT_FILE, &later, sizeof(later)); /* an earlier boot's */
	for (int i = 0; i < BREAKER_LIMIT; i++) {
		assert_false(is_open(dirfd));
		breaker_count();
	}
	assert_true(is_open(dirfd));
	breaker_reset();
	assert_true(is_open(dirfd));
	write_file(dirfd, BREAKER_COUNT_FILE, &later, sizeof(later));
	breaker_reset();
	assert_false(is_open(dirfd));
	breaker_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_write_then_read_is_the_same,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_record_whose_beginning_was_lost_is_none,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_damage_reads_as_nothing, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_records_of_other_versions_are_read,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_nonsense_in_a_record_is_left_out,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_breaker_opens_at_the_third_recent_crash,
						unit_scratch_setup, unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
