/*
 * landlock: restricts the paths that a process may use, in addition to its filter of system calls
 * (seccomp.h). On a processor that the filter does not know, it is the only restriction. It exists
 * since Linux 5.13 and needs no_new_privs.
 */
#pragma once

/* The calling thread, and those that it makes, open no file for writing, and make and remove
 * nothing, for ever; from 6.2 on they cut nothing either. What is open stays as it is. 0, or
 * -errno: -ENOSYS or -EOPNOTSUPP where the kernel has none. */
int landlock_forbid_writing(void);

/* 1 or more; -errno: there is none. */
int landlock_get_version(void);
