/*
 * landlock: restricts the paths that a process may use, in addition to its filter of system calls
 * (seccomp.h). On a processor that the filter does not know, it is the only restriction. It exists
 * since Linux 5.13 and needs no_new_privs.
 */
#pragma once

/* From now on, the calling thread and the threads that it makes cannot open a file for writing, and
 * cannot create or remove a name; from Linux 6.2 on they cannot truncate a file either. Open
 * descriptors are not affected. 0, or -errno: -ENOSYS or -EOPNOTSUPP if the kernel has no
 * Landlock. */
int landlock_forbid_writing(void);

/* Returns the version, 1 or more; -errno if there is no Landlock. */
int landlock_get_version(void);
