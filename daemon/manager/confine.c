/*
 * The rights that the manager gives up before it reads anything. It is started with a socket to
 * root and requests every privileged operation through it. So it needs no right to start programs,
 * to use namespaces, mounts or signals, or to open files for writing. It reads /proc and the
 * cgroups, and it writes only to descriptors that root has opened. An attacker who takes it over
 * then cannot show root another view of the files (by its own namespace or a bind mount), send
 * signals to other jobs' managers, which have the same uid, start programs, or fill the node's
 * memory and /tmp. No memory limit is set if the size of the process is not known. On a kernel
 * without filters, there is no filter: root's own checks (daemon/keeper/) do not depend on it.
 */
#include "daemon/manager/manager.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/sandbox/landlock.h"
#include "common/sandbox/seccomp.h"
#include "common/util/cleanup.h"

/* These calls are denied in addition to those that none of our programs needs (seccomp.c). Headers
 * of some kernels lack some of them, so each of these has an #ifdef. */
static const unsigned denied[] = {
/* processes */
#ifdef __NR_fork
	__NR_fork,
	__NR_vfork,
#endif
#ifndef STAGE_SANITIZED /* LeakSanitizer uses these calls in its own process */
	__NR_clone,
	__NR_kill,
	__NR_tgkill,
#endif
	__NR_tkill,
	__NR_rt_sigqueueinfo,
	__NR_rt_tgsigqueueinfo,
#ifdef __NR_pidfd_send_signal
	__NR_pidfd_send_signal,
#endif
	__NR_setpriority,
	__NR_sched_setscheduler,
	__NR_sched_setparam,
	__NR_sched_setattr,
	__NR_ioprio_set,
	__NR_migrate_pages,
	__NR_move_pages,
	/* file handles, which would allow other processes to open files without access to the
	 * directories */
	__NR_name_to_handle_at,
	/* sockets that others could connect to */
	__NR_bind,
	/* memory that is not counted by a limit of the process */
	__NR_memfd_create,
#ifdef __NR_memfd_secret
	__NR_memfd_secret,
#endif
#ifdef __NR_shmget
	__NR_shmget,
	__NR_msgget,
	__NR_semget,
#endif
	__NR_mq_open,
};

/* More memory than the manager ever uses, with a table of 2^20 threads (proc-look.c) and a stack of
 * 8 MiB. The limit is on address space, because no other limit counts shared memory. */
#define MORE_MEMORY (64 << 20)

static void limit_memory(void)
{
#ifndef STAGE_SANITIZED /* the sanitizers need much more address space */
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages;
	struct rlimit limit;

	if (!f || fscanf(f, "%llu", &pages) != 1)
		return;
	limit.rlim_max = pages * (unsigned long long)sysconf(_SC_PAGESIZE) + MORE_MEMORY;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_AS, &limit);
#endif
}

void manager_confine(void)
{
	limit_memory();
	(void)landlock_forbid_writing();
	(void)seccomp_confine(denied, ARRAY_SIZE(denied));
}
