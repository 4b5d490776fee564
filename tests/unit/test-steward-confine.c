/*
 * What a steward that somebody has taken over can't do by itself. Each check is a call of a child that has confined itself:
 * it ends with the number of the line that is wrong.
 */
#include "daemon/steward/steward.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/unit/unit.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(__LINE__ % 250 + 1);                                                 \
	} while (0)
#define CHECK_DENIED(call) CHECK((errno = 0, (call) == -1) && errno == EPERM)

static void in_child(void (*run)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
			_exit(UNIT_SKIPPED);
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		steward_confine();
		CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIPPED)
		skip();
	if (status != 0)
		fail_msg("signal %d, line %d (or 250 more)", WTERMSIG(status), WEXITSTATUS(status) - 1);
}

static void try_programs_and_processes(void)
{
	static char name[] = "true";
	char *const argv[] = { name, NULL }, *const env[] = { NULL };
	struct rlimit limit = { 0, 0 };
	struct iovec iov = { &limit, sizeof(limit) };
	struct sched_param param = { 0 };
	cpu_set_t cpus;

	CHECK_DENIED(execve("/bin/true", argv, env));
	CHECK_DENIED(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, env, 0));
#ifndef STAGE_SANITIZED
	CHECK_DENIED(fork());
	CHECK_DENIED(kill(getppid(), 0));
	CHECK_DENIED(syscall(SYS_tgkill, getppid(), getppid(), 0));
	CHECK_DENIED(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
#endif
	CHECK_DENIED(syscall(SYS_tkill, getppid(), 0));
	CHECK_DENIED(syscall(424, 0, 0, NULL, 0)); /* pidfd_send_signal */
	CHECK_DENIED(syscall(438, 0, 0, 0)); /* pidfd_getfd */
	CHECK_DENIED(process_vm_readv(getppid(), &iov, 1, &iov, 1, 0));
	CHECK_DENIED(process_vm_writev(getppid(), &iov, 1, &iov, 1, 0));
	CHECK_DENIED(setpriority(PRIO_PROCESS, (id_t)getppid(), 1));
	CHECK_DENIED(sched_setscheduler(getppid(), SCHED_IDLE, &param));
	CHECK_DENIED(prlimit(getppid(), RLIMIT_CORE, NULL, &limit));
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	CHECK_DENIED(sched_setaffinity(getppid(), sizeof(cpus), &cpus));
	/* and its own */
	CHECK(prlimit(0, RLIMIT_CORE, NULL, &limit) == 0);
}

static void try_mounts_and_namespaces(void)
{
	CHECK_DENIED(unshare(CLONE_NEWUSER));
	CHECK_DENIED(unshare(CLONE_NEWNS));
	CHECK_DENIED(setns(0, 0));
	CHECK_DENIED(mount("none", "/tmp", "tmpfs", 0, NULL));
	CHECK_DENIED(umount2("/tmp", MNT_DETACH));
	CHECK_DENIED(chroot("/"));
	CHECK_DENIED(syscall(SYS_pivot_root, ".", "."));
	CHECK_DENIED(syscall(428, AT_FDCWD, "/", 0)); /* open_tree */
	CHECK_DENIED(syscall(430, "tmpfs", 0)); /* fsopen */
	CHECK_DENIED(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
	CHECK(syscall(435, NULL, 0) == -1 && errno == ENOSYS); /* clone3, whose flags no filter sees */
}

static void try_sockets_and_the_kernel(void)
{
	const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "\0confined" };
	int fds[2], fd;

	CHECK_DENIED(socket(AF_INET, SOCK_STREAM, 0));
	CHECK_DENIED(socket(AF_INET6, SOCK_DGRAM, 0));
	CHECK_DENIED(socket(AF_NETLINK, SOCK_RAW, 0));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK_DENIED(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)));
	CHECK_DENIED(listen(fd, 1));
	CHECK_DENIED(syscall(SYS_bpf, 0, NULL, 0));
	CHECK_DENIED(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	CHECK_DENIED(syscall(SYS_keyctl, 0, -3, 0));
	CHECK_DENIED(syscall(SYS_add_key, "user", "x", "y", 1, -3));
	CHECK_DENIED(syscall(425, 1, NULL)); /* io_uring_setup */
}

static void test_it_starts_and_reaches_no_process(void **state)
{
	in_child(try_programs_and_processes);
}

static void test_it_mounts_nothing_and_enters_no_namespace(void **state)
{
	in_child(try_mounts_and_namespaces);
}

static void test_it_has_local_sockets_alone_and_nothing_of_the_kernels_inside(void **state)
{
	in_child(try_sockets_and_the_kernel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_starts_and_reaches_no_process),
		cmocka_unit_test(test_it_mounts_nothing_and_enters_no_namespace),
		cmocka_unit_test(test_it_has_local_sockets_alone_and_nothing_of_the_kernels_inside),
	};

	if (unit_is_under_valgrind())
		return UNIT_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
