/*
 * exec-copy: executes an unreadable copy of a system program, so that nobody can trace it. The
 * job's user could otherwise trace a process that runs as him outside the job's cgroups, and run
 * any code there. The kernel lets nobody but root trace a process whose program its owner may not
 * read. To be called by a process that can't be traced itself.
 */
#pragma once

#include <stddef.h>

#define EXEC_COPY_PATH "/usr/local/bin:/usr/bin:/bin"

/* The first file of that name in EXEC_COPY_PATH, whether or not it can be executed; a name with a
 * slash is taken as it is. 0, or -ENOENT and its like. */
int exec_copy_find(const char *name, char *buf, size_t size);

/*
 * name: as exec_copy_find() finds it. fd: a descriptor's number that is free to be
 * taken; all above it are closed. Returns only when it failed: -ENOENT and its like; -ENOEXEC: a
 * script, which its interpreter would have to read; -EACCES: this system starts nothing from memory
 * (vm.memfd_noexec=2).
 */
int exec_copy(const char *name, char *const *argv, char *const *envp, int fd);

/* Does the same, but executes the program itself in these two cases. The user can trace it then.
 * For programs in the job's cgroups. */
int exec_copy_or_itself(const char *name, char *const *argv, char *const *envp, int fd);
