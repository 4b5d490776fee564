/*
 * What the manager gives up before it reads anything. It is started with a socket to root, which is
 * its only way to have something done: by itself it needs neither programs nor namespaces, mounts,
 * signals or other processes. An attacker who takes it over can then not show root another view of
 * the files (a namespace of its own, a bind mount), send signals to other jobs' managers, which
 * have its uid, or start programs of the machine.
 *
 * A kernel without filters goes without: root's own checks (daemon/keeper/) don't depend on this.
 */
#include "daemon/manager/manager.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "common/sandbox/seccomp.h"
#include "common/util/cleanup.h"

/* Beside what none of our programs needs (seccomp.c). Calls of other kernels' headers are missing
 * in some: each has its own #ifdef. */
static const unsigned denied[] = {
/* processes */
#ifdef __NR_fork
	__NR_fork,
	__NR_vfork,
#endif
#ifndef STAGE_SANITIZED /* LeakSanitizer does these to its own process */
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
	/* handles, by which others could open files past all directories */
	__NR_name_to_handle_at,
	/* sockets that others could connect to */
	__NR_bind,
};

void manager_confine(void)
{
	(void)seccomp_confine(denied, ARRAY_SIZE(denied));
}
