/*
 * What a manager that somebody has taken over can't do by itself.
 */
#include "daemon/manager/manager.h"

#include <asm/sockios.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/un.h>

#include "common/sandbox/landlock.h"
#include "tests/unit/unit-confined.h"

static void confine(void)
{
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0)
		_exit(UNIT_SKIPPED);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	manager_confine();
	CHECK(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2);
}

static void try_what_nobody_needs(const char *dir)
{
	confine();
	unit_check_denied_to_all();
}

static void try_processes(const char *dir)
{
	struct rlimit limit = { 0, 0 };
	struct sched_param param = { 0 };
	cpu_set_t cpus;

	confine();
#ifndef STAGE_SANITIZED
	CHECK_DENIED(fork());
	CHECK_DENIED(kill(getppid(), 0));
	CHECK_DENIED(syscall(SYS_tgkill, getppid(), getppid(), 0));
	CHECK_DENIED(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
#endif
	CHECK_DENIED(syscall(SYS_tkill, getppid(), 0));
	CHECK_DENIED(syscall(424, 0, 0, NULL, 0)); /* pidfd_send_signal */
	CHECK_DENIED(setpriority(PRIO_PROCESS, (id_t)getppid(), 1));
	CHECK_DENIED(sched_setscheduler(getppid(), SCHED_IDLE, &param));
	CHECK_DENIED(prlimit(getppid(), RLIMIT_CORE, NULL, &limit));
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	CHECK_DENIED(sched_setaffinity(getppid(), sizeof(cpus), &cpus));
	/* and its own */
	CHECK(prlimit(0, RLIMIT_CORE, NULL, &limit) == 0);
}

/* Where a descriptor has an owner the kernel signals that when there is something to read. */
static void try_signals_of_descriptors(const char *dir)
{
	struct f_owner_ex owner = { F_OWNER_PID, getppid() };
	int fds[2], pid = getppid();

	confine();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK_DENIED(fcntl(fds[0], F_SETOWN, pid));
	CHECK_DENIED(fcntl(fds[0], F_SETOWN_EX, &owner));
	CHECK_DENIED(fcntl(fds[0], F_SETSIG, SIGKILL));
	CHECK_DENIED(ioctl(fds[0], FIOSETOWN, &pid));
	CHECK_DENIED(ioctl(fds[0], SIOCSPGRP, &pid));
	/* and what it does itself */
	CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(fds[0], F_GETFL) >= 0);
	CHECK(fcntl(fds[0], F_DUPFD_CLOEXEC, 3) >= 0 && fcntl(fds[0], F_SETFD, FD_CLOEXEC) == 0);
	CHECK(fcntl(fds[0], F_GETOWN) == 0);
}

/* No call of its own changes its uid or makes it gain a capability, which would undo it as well. */
static void try_to_outlive(const char *dir)
{
	int sig = 0;

	CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0);
	confine();
	CHECK_DENIED(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0));
	CHECK_DENIED(prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0));
	CHECK(prctl(PR_GET_PDEATHSIG, &sig, 0, 0, 0) == 0 && sig == SIGKILL);
	CHECK(prctl(PR_SET_NAME, "confined") == 0);
}

static void try_sockets(const char *dir)
{
	const struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "\0confined" };
	int fds[2], fd;

	confine();
	CHECK_DENIED(socket(AF_INET, SOCK_STREAM, 0));
	CHECK_DENIED(socket(AF_INET6, SOCK_DGRAM, 0));
	CHECK_DENIED(socket(AF_NETLINK, SOCK_RAW, 0));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	CHECK_DENIED(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)));
}

/* The directory is none: without a filter nothing is done. */
static void try_files(const char *dir)
{
	static const char path[] = "/nonexistent/x", to[] = "/nonexistent/y";
	static const int flags[] = { O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC };
	const int pipe_fd = memfd_create("before", MFD_CLOEXEC);

	confine();
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		CHECK_DENIED(open(path, flags[i], 0600));
	CHECK_DENIED(open("/nonexistent", O_TMPFILE | O_RDWR, 0600));
	CHECK_DENIED(mkdir(path, 0700));
	CHECK_DENIED(unlink(path));
	CHECK_DENIED(rmdir(path));
	CHECK_DENIED(rename(path, to));
	CHECK_DENIED(link(path, to));
	CHECK_DENIED(symlink(path, to));
	CHECK_DENIED(mkfifo(path, 0600));
	CHECK_DENIED(chmod(path, 0600));
	CHECK_DENIED(chown(path, 0, 0));
	CHECK_DENIED(truncate(path, 0));
	CHECK_DENIED(memfd_create("more", MFD_CLOEXEC));
	/* and what it does: it writes to what root has opened, and reads */
	CHECK(write(pipe_fd, "x", 1) == 1);
	CHECK(open("/proc/self/stat", O_RDONLY | O_CLOEXEC) >= 0);
}

static void try_files_by_landlock(const char *dir)
{
	char path[64];

	if (landlock_get_version() <= 0)
		return;
	CHECK(snprintf(path, sizeof(path), "%s/x", dir) > 0);
	unit_refuse_filters();
	manager_confine();
	CHECK(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) == -1 && errno == EACCES);
	CHECK(mkdir(path, 0700) == -1 && errno == EACCES);
	CHECK(symlink("x", path) == -1 && errno == EACCES);
	CHECK(rmdir(dir) == -1 && errno == EACCES);
}

static bool can_have(size_t mib, int flags)
{
	return mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0) !=
	       MAP_FAILED;
}

static void try_memory(const char *dir)
{
	struct rlimit limit;

	confine();
#ifndef STAGE_SANITIZED
	CHECK(!can_have(80, MAP_PRIVATE) && !can_have(80, MAP_SHARED));
	CHECK(can_have(40, MAP_PRIVATE));
	CHECK(!can_have(40, MAP_SHARED));
	CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == limit.rlim_max);
#endif
	CHECK_DENIED(shmget(IPC_PRIVATE, 4096, 0600));
	CHECK_DENIED(msgget(IPC_PRIVATE, 0600));
}

static void test_it_starts_mounts_and_traces_nothing(void **state)
{
	unit_check_in_child(try_what_nobody_needs, NULL);
}

static void test_it_reaches_no_process(void **state)
{
	unit_check_in_child(try_processes, NULL);
}

/* Seen failing without the rules of seccomp_confine() for fcntl() and ioctl(). */
static void test_it_has_no_signal_sent_by_a_descriptor(void **state)
{
	unit_check_in_child(try_signals_of_descriptors, NULL);
}

/* Seen failing without the rule of seccomp_confine() for prctl(). */
static void test_it_does_not_outlive_its_keeper(void **state)
{
	unit_check_in_child(try_to_outlive, NULL);
}

static void test_it_has_local_sockets_alone(void **state)
{
	unit_check_in_child(try_sockets, NULL);
}

/* Seen failing without NO_WRITING, and with an empty list of changing_files (seccomp.c). */
static void test_it_changes_no_files(void **state)
{
	unit_check_in_child(try_files, NULL);
}

/* Seen failing without landlock_forbid_writing(). */
static void test_landlock_alone_lets_it_make_nothing(void **state)
{
	char dir[] = "/tmp/test-confine-XXXXXX";

	assert_non_null(mkdtemp(dir));
	unit_check_in_child(try_files_by_landlock, dir);
	assert_int_equal(rmdir(dir), 0);
}

/* Seen failing without limit_memory(), with RLIMIT_DATA in it, and without shmget() in the list. */
static void test_it_has_little_memory(void **state)
{
	unit_check_in_child(try_memory, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_starts_mounts_and_traces_nothing),
		cmocka_unit_test(test_it_reaches_no_process),
		cmocka_unit_test(test_it_has_no_signal_sent_by_a_descriptor),
		cmocka_unit_test(test_it_does_not_outlive_its_keeper),
		cmocka_unit_test(test_it_has_local_sockets_alone),
		cmocka_unit_test(test_it_changes_no_files),
		cmocka_unit_test(test_landlock_alone_lets_it_make_nothing),
		cmocka_unit_test(test_it_has_little_memory),
	};

	if (unit_is_under_valgrind())
		return UNIT_SKIPPED;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
