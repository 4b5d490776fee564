/*
 * The filters are written by hand: a table of numbers needs no library. The architecture is
 * checked first, since numbers mean other calls under another one; on x86-64 the calls of the x32
 * ABI, which have a bit of their own, are refused as well.
 */
#include "daemon/worker/seccomp.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

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
#define SECCOMP_MAX_RULES 5
#define SECCOMP_X32_BIT 0x40000000
#define SECCOMP_CLONE3 435 /* on all architectures; older headers lack it */

#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

/* A call that gets an answer of its own where an argument has one of these bits; bits 0: always. */
struct rule {
	unsigned call, arg;
	uint32_t bits, answer;
};

/* No new code: what was mapped when the program started is all that it runs. And no limits of others. */
static const struct rule own_alone[] = {
	{ __NR_mmap, 2, PROT_EXEC, REFUSE },
	{ __NR_mprotect, 2, PROT_EXEC, REFUSE },
	{ __NR_prlimit64, 0, UINT32_MAX, REFUSE },
};

/* Threads and processes, but in no namespaces of their own. The flags of clone3() lie where no
 * filter sees them; libc takes clone() where there is none. */
#define NEW_NAMESPACES                                                                             \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define NO_NAMESPACES                                                                              \
	{ __NR_clone, 0, NEW_NAMESPACES, REFUSE }, { SECCOMP_CLONE3, 0, 0, SECCOMP_RET_ERRNO | ENOSYS }

static const struct rule no_namespaces[] = { NO_NAMESPACES };

/* The same, and local sockets alone (AF_UNIX is 1), and no limits or CPUs of others. */
static const struct rule alone_and_local[] = {
	NO_NAMESPACES,
	{ __NR_socket, 0, ~(uint32_t)1, REFUSE },
	{ __NR_prlimit64, 0, UINT32_MAX, REFUSE },
	{ __NR_sched_setaffinity, 0, UINT32_MAX, REFUSE },
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
						 rule->bits ? 3 : 1);
	if (rule->bits) {
		code[n++] = (struct sock_filter)BPF_STMT(
			BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) +
							     sizeof(uint64_t) * rule->arg));
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, rule->bits, 0,
							 1);
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

int seccomp_deny(const unsigned *calls, size_t n)
{
	const struct filter f = { .calls = calls,
				  .n_calls = n,
				  .these = REFUSE,
				  .others = SECCOMP_RET_ALLOW,
				  .rules = no_namespaces,
				  .n_rules = ARRAY_SIZE(no_namespaces),
				  .flags = SECCOMP_FILTER_FLAG_TSYNC };

	return install(&f);
}

int seccomp_confine(const unsigned *calls, size_t n)
{
	const struct filter f = { .calls = calls,
				  .n_calls = n,
				  .these = REFUSE,
				  .others = SECCOMP_RET_ALLOW,
				  .rules = alone_and_local,
				  .n_rules = ARRAY_SIZE(alone_and_local),
				  .flags = SECCOMP_FILTER_FLAG_TSYNC };

	return install(&f);
}
