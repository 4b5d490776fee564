/*
 * What a process that has confined itself can't do. Each check is a call of a child, as what is
 * given up is given up for ever: it ends with the number of the line that is wrong.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			_exit(__LINE__ % 250 + 1);                                                 \
	} while (0)
#define CHECK_DENIED(call) CHECK((errno = 0, (call) == -1) && errno == EPERM)

/* run may end with UNIT_SKIPPED. */
static inline void unit_check_in_child(void (*run)(const char *dir), const char *dir)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		run(dir);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNIT_SKIPPED)
		skip();
	if (status != 0)
		fail_msg("signal %d, line %d (or 250 more)", WTERMSIG(status),
			 WEXITSTATUS(status) - 1);
}

/* Programs, mounts, namespaces and what else the filters of all programs refuse. A program that is
 * started nevertheless fails, and the path is none: without a filter nothing is done. */
static inline void unit_check_denied_but_programs(void)
{
	static const char dir[] = "/nonexistent";
	static char name[] = "false";
	static const unsigned long flags[] = { CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
					       CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
					       CLONE_NEWNET };
	struct iovec iov = { name, sizeof(name) };

#ifndef STAGE_SANITIZED
	CHECK_DENIED(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
#endif
	CHECK_DENIED(process_vm_readv(getppid(), &iov, 1, &iov, 1, 0));
	CHECK_DENIED(process_vm_writev(getppid(), &iov, 1, &iov, 1, 0));
	CHECK_DENIED(syscall(438, 0, 0, 0)); /* pidfd_getfd */
	CHECK_DENIED(mount("none", dir, "tmpfs", 0, NULL));
	CHECK_DENIED(umount2(dir, MNT_DETACH));
	CHECK_DENIED(chroot(dir));
	CHECK_DENIED(syscall(SYS_pivot_root, ".", "."));
	CHECK_DENIED(syscall(428, AT_FDCWD, "/", 0)); /* open_tree */
	CHECK_DENIED(syscall(430, "tmpfs", 0));	      /* fsopen */
	CHECK_DENIED(setns(0, 0));
	CHECK_DENIED(unshare(0));
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) /* CHECK() ends a child, too */
		CHECK_DENIED((int)syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0));
	CHECK(syscall(435, NULL, 0) == -1 &&
	      errno == ENOSYS); /* clone3, whose flags no filter sees */
	CHECK_DENIED(syscall(SYS_bpf, 0, NULL, 0));
	CHECK_DENIED(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	CHECK_DENIED(syscall(425, 1, NULL)); /* io_uring_setup */
	CHECK_DENIED(syscall(SYS_keyctl, 0, -3, 0));
	CHECK_DENIED(syscall(SYS_add_key, "user", "x", "y", 1, -3));
	CHECK_DENIED(mknodat(AT_FDCWD, "/nonexistent/x", S_IFCHR | 0666, 0x103));
	CHECK_DENIED(setxattr(dir, "user.x", "y", 1, 0));
	/* by number: quotactl_fd, setxattrat, open_tree_attr, file_setattr */
	CHECK_DENIED((int)syscall(443, -1, 0, 0, NULL));
	CHECK_DENIED((int)syscall(463, AT_FDCWD, "/nonexistent", 0, "user.x", NULL, 0));
	CHECK_DENIED((int)syscall(467, AT_FDCWD, "/nonexistent", 0, NULL, 0));
	CHECK_DENIED((int)syscall(469, AT_FDCWD, "/nonexistent", NULL, 0, 0));
	CHECK_DENIED(listen(0, 1));
#ifdef __x86_64__
	CHECK_DENIED((int)syscall(0x40000000 | 20)); /* getpid of the x32 ABI */
#endif
}

/* As on a processor whose system calls no filter of ours knows */
static inline void unit_refuse_filters(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_seccomp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { ARRAY_SIZE(code), code };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0);
}

static inline void unit_check_denied_to_all(void)
{
	static char name[] = "false";
	char *const argv[] = { name, NULL };

	CHECK_DENIED(execve("/bin/false", argv, argv));
	CHECK_DENIED(syscall(SYS_execveat, AT_FDCWD, "/bin/false", argv, argv, 0));
	unit_check_denied_but_programs();
}
