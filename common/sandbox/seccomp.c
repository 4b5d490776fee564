/*
 * The filters are written by hand: a table of numbers needs no library. The architecture is
 * checked first, since numbers mean other calls under another one; on x86-64 the calls of the x32
 * ABI, which have a bit of their own, are refused as well.
 */
#include "common/sandbox/seccomp.h"

#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#if defined(__x86_64__)
#define SECCOMP_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SECCOMP_ARCH AUDIT_ARCH_AARCH64
#elif defined(__powerpc64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SECCOMP_ARCH AUDIT_ARCH_PPC64LE
#else
#define SECCOMP_ARCH 0
#endif

#define SECCOMP_MAX_CALLS 200 /* a BPF jump can skip at most 255 instructions */
#define SECCOMP_MAX_RULES 15
#define SECCOMP_X32_BIT 0x40000000
/* The numbers are the same on all architectures. Older headers lack them. */
#define SECCOMP_CLONE3 435
#define SECCOMP_OPENAT2 437
#define SECCOMP_QUOTACTL_FD 443
#define SECCOMP_FCHMODAT2 452
#define SECCOMP_SETXATTRAT 463
#define SECCOMP_REMOVEXATTRAT 466
#define SECCOMP_OPEN_TREE_ATTR 467
#define SECCOMP_FILE_SETATTR 469

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

static const unsigned starting_programs[] = {
	__NR_execve,
	__NR_execveat,
};

/* Some headers lack some of these calls, so these have an #ifdef each. */
static const unsigned denied_to_all[] = {
/* other processes */
#ifndef STAGE_SANITIZED /* LeakSanitizer traces its own process */
	__NR_ptrace,
#endif
	__NR_process_vm_readv,
	__NR_process_vm_writev,
	__NR_kcmp,
#ifdef __NR_pidfd_getfd
	__NR_pidfd_getfd,
#endif
#ifdef __NR_process_madvise
	__NR_process_madvise,
#endif
	/* sockets: only open ones can be used */
	__NR_listen,
	/* mounts and namespaces */
	__NR_mount,
	__NR_umount2,
#ifdef __NR_umount
	__NR_umount,
#endif
	__NR_pivot_root,
	__NR_chroot,
	__NR_setns,
	__NR_unshare,
#ifdef __NR_move_mount
	__NR_move_mount,
	__NR_open_tree,
	__NR_fsopen,
	__NR_fsconfig,
	__NR_fsmount,
	__NR_fspick,
#endif
#ifdef __NR_mount_setattr
	__NR_mount_setattr,
#endif
	SECCOMP_OPEN_TREE_ATTR,
	__NR_open_by_handle_at,
	/* interfaces to the kernel's internals */
	__NR_bpf,
	__NR_perf_event_open,
	__NR_userfaultfd,
#ifdef __NR_io_uring_setup
	__NR_io_uring_setup,
	__NR_io_uring_enter,
	__NR_io_uring_register,
#endif
	__NR_init_module,
	__NR_finit_module,
	__NR_delete_module,
	__NR_kexec_load,
#ifdef __NR_kexec_file_load
	__NR_kexec_file_load,
#endif
	__NR_syslog,
	__NR_acct,
	__NR_quotactl,
	SECCOMP_QUOTACTL_FD,
	__NR_personality,
#ifdef __NR_modify_ldt
	__NR_modify_ldt,
#endif
	/* keys */
	__NR_keyctl,
	__NR_add_key,
	__NR_request_key,
	/* attributes of files other than mode and times */
	__NR_mknodat,
#ifdef __NR_mknod
	__NR_mknod,
#endif
	__NR_setxattr,
	__NR_lsetxattr,
	__NR_fsetxattr,
	SECCOMP_SETXATTRAT,
	SECCOMP_FILE_SETATTR,
	/* settings of the machine */
	__NR_reboot,
	__NR_swapon,
	__NR_swapoff,
	__NR_sethostname,
	__NR_setdomainname,
	__NR_settimeofday,
	__NR_clock_settime,
	__NR_clock_adjtime,
	__NR_adjtimex,
#ifdef __NR_stime
	__NR_stime,
#endif
};

/* Calls that change files, forbidden to programs that only write to descriptors they get */
static const unsigned changing_files[] = {
	__NR_unlinkat,
	__NR_renameat2,
	__NR_mkdirat,
	__NR_linkat,
	__NR_symlinkat,
	/* Even for these descriptors, size and mode belong to another program. */
	__NR_fchmod,
	__NR_fchmodat,
	SECCOMP_FCHMODAT2,
	__NR_fchown,
	__NR_fchownat,
	__NR_truncate,
	__NR_ftruncate,
	__NR_fallocate,
	__NR_utimensat,
	__NR_removexattr,
	__NR_lremovexattr,
	__NR_fremovexattr,
	SECCOMP_REMOVEXATTRAT,
#ifdef __NR_utime
	__NR_utime,
#endif
#ifdef __NR_utimes
	__NR_utimes,
#endif
#ifdef __NR_futimesat
	__NR_futimesat,
#endif
#ifdef __NR_renameat
	__NR_renameat,
#endif
#ifdef __NR_unlink
	__NR_unlink,
	__NR_rmdir,
	__NR_rename,
	__NR_mkdir,
	__NR_link,
	__NR_symlink,
	__NR_chmod,
	__NR_chown,
	__NR_lchown,
	__NR_creat,
#endif
};

/* Condition under which a rule applies */
enum when {
	WHEN_BITS,  /* the argument has one of these bits */
	WHEN_VALUE, /* the argument has this value */
	WHEN_CALLED,
};

/* Gives a call another answer, depending on the lower 32 bits of an argument */
struct rule {
	unsigned call;
	enum when when;
	unsigned arg;
	uint32_t value, answer;
};

/* Forbids new code: only what was mapped when the program started can run. Forbids changing the
 * limits of other processes. */
static const struct rule own_alone[] = {
	{ __NR_mmap, WHEN_BITS, 2, PROT_EXEC, REFUSE },
	{ __NR_mprotect, WHEN_BITS, 2, PROT_EXEC, REFUSE },
	{ __NR_prlimit64, WHEN_BITS, 0, UINT32_MAX, REFUSE },
};

/* Allows threads and processes, but no new namespaces. A filter cannot see the flags of clone3(),
 * so this call is reported as missing; libc then uses clone(). */
#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)
#define NO_NAMESPACES                                                                              \
	{ __NR_clone, WHEN_BITS, 0, NEW_NAMESPACES, REFUSE },                                      \
	{                                                                                          \
		SECCOMP_CLONE3, WHEN_CALLED, 0, 0, SECCOMP_RET_ERRNO | ENOSYS                      \
	}

static const struct rule no_namespaces[] = { NO_NAMESPACES };

/* Also allows opening files for reading only. A filter cannot see the flags of openat2(), so this
 * call is reported as missing; libraries then use openat(). */
#define WRITING (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#ifdef __NR_open
#define OPEN_READS { __NR_open, WHEN_BITS, 1, WRITING, REFUSE },
#else
#define OPEN_READS
#endif
/* clang-format off */
#define NO_WRITING                                                                                 \
	OPEN_READS                                                                                 \
	{ __NR_openat, WHEN_BITS, 2, WRITING, REFUSE },                                            \
	{ SECCOMP_OPENAT2, WHEN_CALLED, 0, 0, SECCOMP_RET_ERRNO | ENOSYS }
/* clang-format on */

static const struct rule no_writing[] = { NO_NAMESPACES, NO_WRITING };

/* Also allows only local sockets (AF_UNIX is 1), and forbids limits and CPUs of other processes.
 * Forbids setting an owner of a descriptor, because the kernel would send signals to that process.
 * Forbids changing PR_SET_PDEATHSIG, so that the process ends with its parent. */
static const struct rule alone_and_local[] = {
	NO_NAMESPACES,
	NO_WRITING,
	{ __NR_socket, WHEN_BITS, 0, ~(uint32_t)1, REFUSE },
	{ __NR_prlimit64, WHEN_BITS, 0, UINT32_MAX, REFUSE },
	{ __NR_sched_setaffinity, WHEN_BITS, 0, UINT32_MAX, REFUSE },
	{ __NR_fcntl, WHEN_VALUE, 1, F_SETOWN, REFUSE },
	{ __NR_fcntl, WHEN_VALUE, 1, F_SETOWN_EX, REFUSE },
	{ __NR_fcntl, WHEN_VALUE, 1, F_SETSIG, REFUSE },
	{ __NR_ioctl, WHEN_VALUE, 1, FIOSETOWN, REFUSE },
	{ __NR_ioctl, WHEN_VALUE, 1, SIOCSPGRP, REFUSE },
	{ __NR_prctl, WHEN_VALUE, 0, PR_SET_PDEATHSIG, REFUSE },
};

struct filter {
	const unsigned *calls;
	size_t n_calls;
	uint32_t these, others; /* the answers to the calls in `calls`, and to all others */
	const struct rule *rules;
	size_t n_rules;
	unsigned flags;
};

/* Loads the lower 32 bits of an argument. On the supported architectures, they come first. */
static size_t add_rule(struct sock_filter *code, const struct rule *rule)
{
	size_t n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rule->call, 0,
						 rule->when == WHEN_CALLED ? 1 : 3);
	if (rule->when != WHEN_CALLED) {
		const uint16_t test = rule->when == WHEN_BITS ? BPF_JSET : BPF_JEQ;

		code[n++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) +
							     sizeof(uint64_t) * rule->arg));
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, rule->value, 0, 1);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, rule->answer);
	return n;
}

static int install(const struct filter *f)
{
	struct sock_filter code[SECCOMP_MAX_CALLS + 5 * SECCOMP_MAX_RULES + 9];
	struct sock_fprog prog = { .filter = code };
	size_t n = 0;
	long r;

	if (SECCOMP_ARCH == 0)
		return -ENOSYS;
	if (f->n_calls > SECCOMP_MAX_CALLS || f->n_rules > SECCOMP_MAX_RULES)
		return -E2BIG;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SECCOMP_X32_BIT, 0, 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, REFUSE);
	for (size_t i = 0; i < f->n_rules; i++)
		n += add_rule(code + n, &f->rules[i]);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < f->n_calls; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, f->calls[i],
							 (uint8_t)(f->n_calls - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, f->others);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, f->these);
	prog.len = (unsigned short)n;
	r = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, f->flags, &prog);
	if (r < 0)
		return errno == EINVAL ? -ENOSYS : -errno; /* EINVAL: the kernel has no filters */
	return r == 0 ? 0 : -EBUSY;			   /* a thread has other filters */
}

int seccomp_allow(const unsigned *calls, size_t n)
{
	const struct filter f = { .calls = calls,
				  .n_calls = n,
				  .these = SECCOMP_RET_ALLOW,
				  .others = REFUSE,
				  .rules = own_alone,
				  .n_rules = ARRAY_SIZE(own_alone) };

	return install(&f);
}

enum may {
	MAY_WRITE = 1,
	MAY_START_PROGRAMS = 2,
};

/* Denies the calls that no program needs, and these. */
static int deny(const unsigned *calls, size_t n, unsigned may, const struct rule *rules,
		size_t n_rules)
{
	const struct {
		const unsigned *calls;
		size_t n;
	} parts[] = {
		{ denied_to_all, ARRAY_SIZE(denied_to_all) },
		{ starting_programs, may & MAY_START_PROGRAMS ? 0 : ARRAY_SIZE(starting_programs) },
		{ changing_files, may & MAY_WRITE ? 0 : ARRAY_SIZE(changing_files) },
		{ calls, n },
	};
	unsigned all[SECCOMP_MAX_CALLS];
	struct filter f = { .calls = all,
			    .these = REFUSE,
			    .others = SECCOMP_RET_ALLOW,
			    .rules = rules,
			    .n_rules = n_rules,
			    .flags = SECCOMP_FILTER_FLAG_TSYNC };

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].n > SECCOMP_MAX_CALLS - f.n_calls)
			return -E2BIG;
		memcpy(all + f.n_calls, parts[i].calls, parts[i].n * sizeof(*all));
		f.n_calls += parts[i].n;
	}
	return install(&f);
}

int seccomp_deny(const unsigned *calls, size_t n)
{
	return deny(calls, n, MAY_WRITE, no_namespaces, ARRAY_SIZE(no_namespaces));
}

int seccomp_deny_but_programs(const unsigned *calls, size_t n)
{
	return deny(calls, n, MAY_WRITE | MAY_START_PROGRAMS, no_namespaces,
		    ARRAY_SIZE(no_namespaces));
}

int seccomp_deny_writing(const unsigned *calls, size_t n)
{
	return deny(calls, n, 0, no_writing, ARRAY_SIZE(no_writing));
}

int seccomp_confine(const unsigned *calls, size_t n)
{
	return deny(calls, n, 0, alone_and_local, ARRAY_SIZE(alone_and_local));
}
