#include "daemon/worker/sqfs/sqfs-jail.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "daemon/worker/seccomp.h"

static const unsigned jail_calls[] = {
	__NR_read,       __NR_pread64,      __NR_write,         __NR_close,
	__NR_brk,        __NR_mmap,         __NR_munmap,        __NR_mremap,
	__NR_madvise,    __NR_mprotect,     __NR_futex,         __NR_exit,
	__NR_exit_group, __NR_rt_sigreturn, __NR_clock_gettime, __NR_getrandom,
	__NR_sigaltstack,
#ifdef __NR_restart_syscall
	__NR_restart_syscall,
#endif
};

static void jail_limit(int resource, uint64_t value)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		return;
	if (limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max)
		limit.rlim_max = value;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(resource, &limit);
}

/* Bytes of address space in use. */
static uint64_t jail_get_size(void)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!f || fscanf(f, "%llu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void sqfs_jail_enter(uint64_t more_memory, uint32_t cpu_seconds)
{
	uint64_t size = jail_get_size();

	signal(SIGXCPU, SIG_DFL);
	if (size > 0)
		jail_limit(RLIMIT_AS, size + more_memory);
	jail_limit(RLIMIT_CPU, cpu_seconds);
	jail_limit(RLIMIT_CORE, 0);
	jail_limit(RLIMIT_FSIZE, 0);
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		(void)seccomp_allow(jail_calls, ARRAY_SIZE(jail_calls));
}
