/*
 * seccomp: which system calls a process or a thread may still make; the rest fail with EPERM.
 *
 * The filters are classic BPF (seccomp(2), Documentation/userspace-api/seccomp_filter.rst of the
 * kernel). They cannot be removed, are combined, and are inherited by programs that are started
 * later. All need no_new_privs. 0, -ENOSYS where kernel or processor have no filters, else -errno.
 */
#pragma once

#include <stddef.h>

/* These and no others, mmap() and mprotect() without PROT_EXEC, prlimit64() of pid 0; the calling
 * thread. */
int seccomp_allow(const unsigned *calls, size_t n);

/* All but these and what none of our programs needs (starting programs, mounts, namespaces, other
 * processes' memory, keys, devices, the kernel's inside, the machine's settings), and no new
 * namespaces (clone3() is said to be missing); all threads. */
int seccomp_deny(const unsigned *calls, size_t n);

/* The same, but programs may be started: they have the filter, too. */
int seccomp_deny_but_programs(const unsigned *calls, size_t n);

/* As seccomp_deny(), and no file is opened for writing or cut by open() (openat2() is said to be
 * missing), and none is made, moved, removed or cut, or gets another mode or owner. */
int seccomp_deny_writing(const unsigned *calls, size_t n);

/* As seccomp_deny_writing(), no sockets but local ones, no limits or CPUs of another process than
 * the caller (pid 0), and no owner or signal of a descriptor: the kernel signals a file's owner. */
int seccomp_confine(const unsigned *calls, size_t n);
