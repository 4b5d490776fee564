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
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

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
#define SECCOMP_X32_BIT 0x40000000

static const uint32_t refuse = SECCOMP_RET_ERRNO | EPERM;

/* What `calls` get, and all others. */
static int install(const unsigned *calls, size_t n_calls, uint32_t these, uint32_t others,
		   unsigned flags)
{
	struct sock_filter code[SECCOMP_MAX_CALLS + 8];
	struct sock_fprog prog = { .filter = code };
	size_t n = 0;
	long r;

	if (SECCOMP_ARCH == 0)
		return -ENOSYS;
	if (n_calls > SECCOMP_MAX_CALLS)
		return -E2BIG;
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, arch));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_ARCH, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, SECCOMP_X32_BIT, 0, 1);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, refuse);
	for (size_t i = 0; i < n_calls; i++)
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i],
							 (uint8_t)(n_calls - i), 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, these);
	prog.len = (unsigned short)n;
	r = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (r < 0)
		return errno == EINVAL ? -ENOSYS : -errno; /* EINVAL: a kernel without filters */
	return r == 0 ? 0 : -EBUSY;			   /* a thread has filters of its own */
}

int seccomp_allow(const unsigned *calls, size_t n)
{
	return install(calls, n, SECCOMP_RET_ALLOW, refuse, 0);
}

int seccomp_deny(const unsigned *calls, size_t n)
{
	return install(calls, n, refuse, SECCOMP_RET_ALLOW, SECCOMP_FILTER_FLAG_TSYNC);
}
