/*
 * seccomp: which system calls a process or a thread may still make; the rest fail with EPERM.
 *
 * The filters are classic BPF (seccomp(2), Documentation/userspace-api/seccomp_filter.rst of the
 * kernel). They are for ever, add up, and are inherited by what is started later. Both need
 * no_new_privs. 0, -ENOSYS where kernel or processor have no filters, else -errno.
 */
#pragma once

#include <stddef.h>

/* These and no others, mmap() and mprotect() without PROT_EXEC, prlimit64() of pid 0; the calling
 * thread. */
int seccomp_allow(const unsigned *calls, size_t n);

/* All but these, and no new namespaces (clone3() is said to be missing); all threads. */
int seccomp_deny(const unsigned *calls, size_t n);

/* The same, and no sockets but local ones, and no limits or CPUs of another process than the caller (pid 0). */
int seccomp_confine(const unsigned *calls, size_t n);
