#include "common/sandbox/sandbox.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/sandbox/landlock.h"
#include "common/sandbox/seccomp.h"
#include "common/util/cleanup.h"
#include "common/util/log.h"

/* Needed by stage-fetch, but not by a worker. The name service binds netlink sockets. */
static const unsigned denied_without_network[] = {
	__NR_socket,
	__NR_bind,
};

/* Needed by a worker, but not by stage-fetch. */
static const unsigned denied_to_fetcher[] = {
	__NR_accept,
	__NR_accept4,
};

/* The calls for reading requests and the image, answers, memory, locks, one message to stagingd,
 * and the log. */
#define SERVER_MAX_CALLS 35
static const unsigned server_calls[] = {
	__NR_read,
	__NR_pread64,
	__NR_write,
	__NR_writev,
	__NR_splice,
	__NR_pipe2,
	__NR_fcntl,
	__NR_fstat, /* checks whether an archive has changed; it takes no path */
	__NR_close,
	__NR_mmap,
	__NR_munmap,
	__NR_mremap,
	__NR_mprotect,
	__NR_madvise,
	__NR_brk,
	__NR_futex,
	__NR_exit,
	__NR_exit_group,
	__NR_rt_sigreturn,
	__NR_rt_sigprocmask,
	__NR_clock_gettime,
	__NR_getrandom,
	__NR_sendmsg,
	__NR_sendto,
	__NR_ppoll, /* is there space for a line of the log? */
	__NR_gettid,
	__NR_getpid,
	__NR_sched_yield,
	__NR_sigaltstack,
	__NR_tgkill,
#ifdef __NR_rseq
	__NR_rseq,
#endif
#ifdef __NR_restart_syscall
	__NR_restart_syscall,
#endif
};
_Static_assert(ARRAY_SIZE(server_calls) <= SERVER_MAX_CALLS, "what it may do is little");

/* Additional calls of the other threads of an image server. They wait, also for messages of
 * stagingd, copy the image to an open descriptor, and end the processes that were started
 * before. */
static const unsigned beside_server_calls[] = {
	__NR_pwrite64,	 __NR_lseek,
#ifdef __NR_newfstatat
	__NR_newfstatat,
#endif
	__NR_statx,	 __NR_utimensat,
#ifdef __NR_poll
	__NR_poll,
#endif
	__NR_recvmsg,	 __NR_nanosleep, __NR_clock_nanosleep, __NR_kill, __NR_wait4,
};

static void note(const char *what, int r)
{
	if (r < 0)
		log_info("%s: left out, errno %d", what, -r);
}

void sandbox_enter(void)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;

	if (r == 0)
		r = seccomp_deny(denied_without_network, ARRAY_SIZE(denied_without_network));
	note("filter of system calls", r);
}

void sandbox_enter_program(void)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;

	if (r == 0)
		r = seccomp_deny_but_programs(denied_without_network,
					      ARRAY_SIZE(denied_without_network));
	note("filter of a program's system calls", r);
}

void sandbox_enter_fetcher(void)
{
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;

	if (r == 0) {
		note("Landlock", landlock_forbid_writing());
		r = seccomp_deny_writing(denied_to_fetcher, ARRAY_SIZE(denied_to_fetcher));
	}
	note("filter of system calls", r);
}

void sandbox_enter_server_thread(void)
{
	note("filter of the server's system calls",
	     seccomp_allow(server_calls, ARRAY_SIZE(server_calls)));
}

void sandbox_enter_beside_server(void)
{
	unsigned calls[ARRAY_SIZE(server_calls) + ARRAY_SIZE(beside_server_calls)];
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;

#ifdef STAGE_SANITIZED /* LeakSanitizer examines all threads from the main thread at the end */
	if (syscall(__NR_gettid) == getpid())
		return;
#endif
	memcpy(calls, server_calls, sizeof(server_calls));
	memcpy(calls + ARRAY_SIZE(server_calls), beside_server_calls, sizeof(beside_server_calls));
	if (r == 0)
		r = seccomp_allow(calls, ARRAY_SIZE(calls));
	note("filter of system calls beside the server's", r);
}
