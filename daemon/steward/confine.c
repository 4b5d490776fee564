/*
 * What the steward gives up before it reads anything. It is started with a socket to root, which is its only way to
 * have something done: by itself it needs neither programs nor namespaces, mounts, signals or other processes. So
 * that whoever takes it over can't show root another view of the files (a namespace of its own, a bind mount), send
 * signals to other jobs' stewards, which have its uid, or start programs of the machine. fcntl(2) is left, by whose
 * F_SETOWN and F_SETSIG the kernel sends a signal to a process of the same uid.
 *
 * A kernel without filters goes without: root's own checks (daemon/keeper/) don't depend on this.
 */
#include "daemon/steward/steward.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "daemon/worker/seccomp.h"

/* Calls of other kernels' headers are missing in some: each has its own #ifdef. */
static const unsigned denied[] = {
	/* programs and processes */
	__NR_execve,
	__NR_execveat,
#ifdef __NR_fork
	__NR_fork,
	__NR_vfork,
#endif
#ifndef STAGE_SANITIZED /* LeakSanitizer does these to its own process */
	__NR_clone,
	__NR_ptrace,
	__NR_kill,
	__NR_tgkill,
#endif
	__NR_tkill,
	__NR_rt_sigqueueinfo,
	__NR_rt_tgsigqueueinfo,
#ifdef __NR_pidfd_send_signal
	__NR_pidfd_send_signal,
#endif
#ifdef __NR_pidfd_getfd
	__NR_pidfd_getfd,
#endif
#ifdef __NR_process_madvise
	__NR_process_madvise,
#endif
	__NR_process_vm_readv,
	__NR_process_vm_writev,
	__NR_kcmp,
	__NR_setpriority,
	__NR_sched_setscheduler,
	__NR_sched_setparam,
	__NR_sched_setattr,
	__NR_ioprio_set,
	__NR_migrate_pages,
	__NR_move_pages,
	/* mounts and namespaces */
	__NR_mount,
	__NR_umount2,
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
	__NR_name_to_handle_at,
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
	__NR_personality,
	/* keys */
	__NR_keyctl,
	__NR_add_key,
	__NR_request_key,
	/* sockets that others could connect to */
	__NR_bind,
	__NR_listen,
};

void steward_confine(void)
{
	(void)seccomp_confine(denied, ARRAY_SIZE(denied));
}
