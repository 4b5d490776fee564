/*
 * old-kernel: runs a program as if the kernel were an older one. What came later answers ENOSYS,
 * and flags that came later EINVAL, to the program and all that it starts, by a filter of system
 * calls.
 *
 *   old-kernel 4.18 PROGRAM [ARG...]    RHEL 8's version; 5.14 is RHEL 9's
 *   old-kernel --probe 4.18             exits 1 if a call is there that came later (run it under
 *                                       itself)
 *   old-kernel 4.18-refused …           they answer EPERM, as by a filter that does not know them:
 *                                       that of a unit of systemd's that is as old, or of a
 *                                       container. libc's own (clone3, faccessat2) say ENOSYS, as
 *                                       a libc of that age does not call them.
 *
 * What a filter can't make older: what calls answer (features of FUSE, the mask of statx()), and
 * what file systems do. Distributions bring some calls to older kernels, so these are the poorest
 * of their versions.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define VERSION(major, minor) ((major)*1000 + (minor))

/* The same numbers on all architectures that we know; what follows the last one came later. */
/* clang-format off */
static const struct call { int nr, version; const char *name; } calls[] = {
	{ 424, VERSION(5, 1), "pidfd_send_signal" },
	{ 425, VERSION(5, 1), "io_uring_setup" },
	{ 426, VERSION(5, 1), "io_uring_enter" },
	{ 427, VERSION(5, 1), "io_uring_register" },
	{ 428, VERSION(5, 2), "open_tree" },
	{ 429, VERSION(5, 2), "move_mount" },
	{ 430, VERSION(5, 2), "fsopen" },
	{ 431, VERSION(5, 2), "fsconfig" },
	{ 432, VERSION(5, 2), "fsmount" },
	{ 433, VERSION(5, 2), "fspick" },
	{ 434, VERSION(5, 3), "pidfd_open" },
	{ 435, VERSION(5, 3), "clone3" },
	{ 436, VERSION(5, 9), "close_range" },
	{ 437, VERSION(5, 6), "openat2" },
	{ 438, VERSION(5, 6), "pidfd_getfd" },
	{ 439, VERSION(5, 8), "faccessat2" },
	{ 440, VERSION(5, 10), "process_madvise" },
	{ 441, VERSION(5, 11), "epoll_pwait2" },
	{ 442, VERSION(5, 12), "mount_setattr" },
	{ 443, VERSION(5, 14), "quotactl_fd" },
	{ 444, VERSION(5, 13), "landlock_create_ruleset" },
	{ 445, VERSION(5, 13), "landlock_add_rule" },
	{ 446, VERSION(5, 13), "landlock_restrict_self" },
	{ 447, VERSION(5, 14), "memfd_secret" },
	{ 448, VERSION(5, 15), "process_mrelease" },
	{ 449, VERSION(5, 16), "futex_waitv" },
	{ 450, VERSION(5, 17), "set_mempolicy_home_node" },
	{ 451, VERSION(6, 5), "cachestat" },
	{ 452, VERSION(6, 6), "fchmodat2" },
	{ 453, VERSION(6, 6), "map_shadow_stack" },
	{ 454, VERSION(6, 7), "futex_wake" },
	{ 455, VERSION(6, 7), "futex_wait" },
	{ 456, VERSION(6, 7), "futex_requeue" },
	{ 457, VERSION(6, 8), "statmount" },
	{ 458, VERSION(6, 8), "listmount" },
	{ 459, VERSION(6, 8), "lsm_get_self_attr" },
	{ 460, VERSION(6, 8), "lsm_set_self_attr" },
	{ 461, VERSION(6, 8), "lsm_list_modules" },
	{ 462, VERSION(6, 10), "mseal" },
};
#define LAST_CALL 462
#define CLONE3 435
#define FACCESSAT2 439

/* Arguments of older calls: bits that came later, or values from one on that did. */
static const struct flag { int nr, arg, version; unsigned bits, from; } flags[] = {
	{ SYS_memfd_create, 1, VERSION(6, 3), 0x18, 0 },      /* MFD_NOEXEC_SEAL, MFD_EXEC */
	{ SYS_mount, 3, VERSION(5, 10), 0x100, 0 },           /* MS_NOSYMFOLLOW */
	{ SYS_unshare, 0, VERSION(5, 6), 0x80, 0 },           /* CLONE_NEWTIME */
	{ SYS_preadv2, 5, VERSION(6, 9), ~0x1fu, 0 },         /* RWF_NOAPPEND and after it */
	{ SYS_pwritev2, 5, VERSION(6, 9), ~0x1fu, 0 },
	{ SYS_madvise, 2, VERSION(5, 4), 0, 20 },             /* MADV_COLD, MADV_PAGEOUT … */
	{ SYS_waitid, 0, VERSION(5, 4), 0, 3 },               /* P_PIDFD */
};
/* clang-format on */

static bool refused; /* -refused */
static struct sock_filter code[512];
static unsigned n_code;

static void add(unsigned short what, unsigned k, unsigned char if_true, unsigned char if_false)
{
	code[n_code++] = (struct sock_filter){ what, if_true, if_false, k };
}

static void load(size_t offset)
{
	add(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static int get_answer(int nr)
{
	return refused && nr != CLONE3 && nr != FACCESSAT2 ? EPERM : ENOSYS;
}

/* Only the calls' own architecture: those of 32 bits have other numbers, and we have none. */
static void add_rules(int version)
{
#ifdef __x86_64__
	load(offsetof(struct seccomp_data, arch));
	add(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
	add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
#endif
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		const struct flag *f = &flags[i];

		if (f->version <= version)
			continue;
		load(offsetof(struct seccomp_data, nr));
		add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)f->nr, 0, 3);
		load(offsetof(struct seccomp_data, args) + sizeof(__u64) * (size_t)f->arg);
		add(BPF_JMP | (f->bits ? BPF_JSET : BPF_JGE) | BPF_K, f->bits ? f->bits : f->from,
		    0, 1);
		add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL, 0, 0);
	}
	load(offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].version <= version)
			continue;
		add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].nr, 0, 1);
		add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)get_answer(calls[i].nr), 0, 0);
	}
	add(BPF_JMP | BPF_JGT | BPF_K, LAST_CALL, 0, 1);
	add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
	add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
}

static int install(int version)
{
	struct sock_fprog prog = { .filter = code };

	add_rules(version);
	prog.len = (unsigned short)n_code;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0)
		return 0;
	/* Who isn't root gives up programs with the setuid bit for it. */
	if (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}

/* With arguments that no call accepts. */
static int probe(int version)
{
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (calls[i].version > version &&
		    (syscall(calls[i].nr, -1, -1, -1, -1, -1, -1) >= 0 ||
		     errno != get_answer(calls[i].nr)))
			n += printf("%s is there\n", calls[i].name) > 0;
	}
	if (syscall(SYS_madvise, NULL, 0, 21) == 0 && version < VERSION(5, 4))
		n += printf("MADV_PAGEOUT is there\n") > 0;
	return n > 0;
}

static int get_version(const char *text)
{
	int major, minor, n = 0;

	if (sscanf(text, "%d.%d%n", &major, &minor, &n) == 2 &&
	    VERSION(major, minor) >= VERSION(4, 18)) {
		refused = !strcmp(text + n, "-refused");
		return VERSION(major, minor);
	}
	fprintf(stderr, "old-kernel: \"%s\" is no version from 4.18 on\n", text);
	exit(2);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--probe"))
		return probe(get_version(argv[2]));
	if (argc < 3 || argv[1][0] == '-') {
		fprintf(stderr, "usage: old-kernel VERSION PROGRAM [ARG...]\n       old-kernel "
				"--probe VERSION\n");
		return 2;
	}
	if (install(get_version(argv[1])) < 0) {
		perror("old-kernel: no filter of system calls");
		return 77;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
