/*
 * exec-copy: executes an unreadable copy of a system program, so that nobody can trace it. The
 * job's user could otherwise trace a process that runs as him outside the job's cgroups, and run
 * any code there. The kernel lets nobody but root trace a process whose program its owner may not
 * read. The caller must be a process that cannot be traced itself.
 */
#pragma once

#include <stddef.h>

#define EXEC_COPY_PATH "/usr/local/bin:/usr/bin:/bin"

/* Finds the first file of that name in EXEC_COPY_PATH, whether or not it can be executed. A name
 * with a slash is not searched for. Returns 0, -ENOENT, or another -errno. */
int exec_copy_find(const char *name, char *buf, size_t size);

/*
 * name: as for exec_copy_find(). fd: the number of a free descriptor, which is used; all
 * descriptors above it are closed. Returns only after a failure: -ENOEXEC: it is a script, which
 * its interpreter would have to read; -EACCES: this system starts no program from memory
 * (vm.memfd_noexec=2); -ENOENT or another -errno.
 */
int exec_copy(const char *name, char *const *argv, char *const *envp, int fd);

/* Does the same, but executes the program itself in these two cases. The user can trace it then.
 * For programs in the job's cgroups. */
int exec_copy_or_itself(const char *name, char *const *argv, char *const *envp, int fd);
