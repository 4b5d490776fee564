/*
 * seccomp: restricts the system calls of a process or a thread. Other calls fail with EPERM.
 *
 * The filters are classic BPF (seccomp(2), Documentation/userspace-api/seccomp_filter.rst of the
 * kernel). They cannot be removed, are combined, and are inherited by programs that are started
 * later. All need no_new_privs. The functions return 0; -ENOSYS: the kernel has no filters, or not
 * for this processor; another -errno.
 */
#pragma once

#include <stddef.h>

/* Restricts the calling thread to these calls. mmap() and mprotect() are allowed only without
 * PROT_EXEC, prlimit64() only for pid 0. */
int seccomp_allow(const unsigned *calls, size_t n);

/* Denies these calls to all threads, and calls that none of our programs needs: starting programs,
 * mounts, namespaces, other processes' memory, keys, devices, the kernel's internals, the machine's
 * settings. New namespaces are denied, too, and clone3() is reported as missing. */
int seccomp_deny(const unsigned *calls, size_t n);

/* Does the same, but allows programs to be started. They inherit the filter. */
int seccomp_deny_but_programs(const unsigned *calls, size_t n);

/* Does the same as seccomp_deny(). Also denies opening files for writing and truncating them by
 * open() (openat2() is reported as missing), and making, moving, removing or truncating files and
 * changing their mode or owner. */
int seccomp_deny_writing(const unsigned *calls, size_t n);

/* Does the same as seccomp_deny_writing(). Also denies sockets other than local ones, the limits
 * and CPUs of other processes (pid 0 is allowed), and setting the owner or signal of a descriptor,
 * because the kernel sends signals to the owner. */
int seccomp_confine(const unsigned *calls, size_t n);
