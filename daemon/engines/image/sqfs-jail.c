#include "daemon/engines/image/sqfs-jail.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/sandbox/seccomp.h"
#include "common/util/cleanup.h"

static const unsigned jail_calls[] = {
	__NR_read,
	__NR_pread64,
	__NR_write,
	__NR_close,
	__NR_brk,
	__NR_mmap,
	__NR_munmap,
	__NR_mremap,
	__NR_madvise,
	__NR_mprotect,
	__NR_futex,
	__NR_exit,
	__NR_exit_group,
	__NR_rt_sigreturn,
	__NR_clock_gettime,
	__NR_getrandom,
	__NR_sigaltstack,
	__NR_fstat,
	__NR_prlimit64,
#ifdef __NR_newfstatat /* newer libcs use it for fstat() */
	__NR_newfstatat,
#endif
#ifdef __NR_restart_syscall
	__NR_restart_syscall,
#endif
};

/* Bytes of address space at sqfs_jail_enter(); 0: not known. */
static uint64_t jail_size;

/* Sets a soft limit (a signal) and a hard limit (SIGKILL), by the system call that the filter
 * allows. */
static void jail_set(int resource, uint64_t soft, uint64_t hard)
{
	struct {
		uint64_t soft, hard;
	} limit;

	if (syscall(__NR_prlimit64, 0, resource, NULL, &limit) < 0)
		return;
	if (hard < limit.hard)
		limit.hard = hard;
	limit.soft = soft < limit.hard ? soft : limit.hard;
	(void)syscall(__NR_prlimit64, 0, resource, &limit, NULL);
}

/* Returns the bytes of address space in use. */
static uint64_t jail_get_size(void)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!f || fscanf(f, "%llu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void sqfs_jail_enter(void)
{
	jail_size = jail_get_size();
	signal(SIGXCPU, SIG_DFL);
	jail_set(RLIMIT_CORE, 0, 0);
	jail_set(RLIMIT_FSIZE, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		(void)seccomp_allow(jail_calls, ARRAY_SIZE(jail_calls));
}

void sqfs_jail_limit(uint64_t more_memory, uint32_t cpu_seconds)
{
	if (jail_size > 0)
		jail_set(RLIMIT_AS, jail_size + more_memory, jail_size + more_memory);
	/* removes the limit of unpackers (data-rlimit.h) */
	jail_set(RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY);
	jail_set(RLIMIT_CPU, cpu_seconds, (uint64_t)cpu_seconds + 1);
}
