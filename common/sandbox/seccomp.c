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

#define SECCOMP_MAX_CALLS 200 /* a jump of BPF goes 255 far */
#define SECCOMP_MAX_RULES 15
#define SECCOMP_X32_BIT 0x40000000
#define SECCOMP_CLONE3 435 /* on all architectures; older headers lack these */
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

/* Calls of other kernels' headers are missing in some: each has its own #ifdef. */
static const unsigned denied_to_all[] = {
/* other processes */
#ifndef STAGE_SANITIZED /* LeakSanitizer looks at its own in this way */
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
	/* sockets: what is open is all there is */
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
	/* the inside of the kernel */
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
	/* what files have beyond mode and times */
	__NR_mknodat,
#ifdef __NR_mknod
	__NR_mknod,
#endif
	__NR_setxattr,
	__NR_lsetxattr,
	__NR_fsetxattr,
	SECCOMP_SETXATTRAT,
	SECCOMP_FILE_SETATTR,
	/* the machine */
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

/* What changes files, of those who only write to what they are handed */
static const unsigned changing_files[] = {
	__NR_unlinkat,
	__NR_renameat2,
	__NR_mkdirat,
	__NR_linkat,
	__NR_symlinkat,
	/* A descriptor that it is handed is written to and nothing else: its size and mode are
	   another's. */
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

/* When a rule gives its answer */
enum when {
	WHEN_BITS,  /* the argument has one of these bits */
	WHEN_VALUE, /* it has this value */
	WHEN_CALLED,
};

/* A call that gets an answer of its own, by the low half of an argument */
struct rule {
	unsigned call;
	enum when when;
	unsigned arg;
	uint32_t value, answer;
};

/* No new code: what was mapped when the program started is all that it runs. And no limits of
 * others. */
static const struct rule own_alone[] = {
	{ __NR_mmap, WHEN_BITS, 2, PROT_EXEC, REFUSE },
	{ __NR_mprotect, WHEN_BITS, 2, PROT_EXEC, REFUSE },
	{ __NR_prlimit64, WHEN_BITS, 0, UINT32_MAX, REFUSE },
};

/* Threads and processes, but in no namespaces of their own. The flags of clone3() lie where no
 * filter sees them; libc takes clone() where there is none. */
#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)
#define NO_NAMESPACES                                                                              \
	{ __NR_clone, WHEN_BITS, 0, NEW_NAMESPACES, REFUSE },                                      \
	{                                                                                          \
		SECCOMP_CLONE3, WHEN_CALLED, 0, 0, SECCOMP_RET_ERRNO | ENOSYS                      \
	}

static const struct rule no_namespaces[] = { NO_NAMESPACES };

/* The same, and files are opened for reading alone. The flags of openat2() lie where no filter sees
 * them; a library takes openat() where there is none. */
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

/* The same, local sockets alone (AF_UNIX is 1), no limits or CPUs of others, and no descriptor by
 * which the kernel sends a signal to another process: it would go to the owner. It ends with the
 * process that started it. */
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
	uint32_t these, others; /* what the calls get, and all others */
	const struct rule *rules;
	size_t n_rules;
	unsigned flags;
};

/* Those that we know have the low half of an argument first. */
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
		return errno == EINVAL ? -ENOSYS : -errno; /* EINVAL: a kernel without filters */
	return r == 0 ? 0 : -EBUSY;			   /* a thread has filters of its own */
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

/* What nobody needs, and these */
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
