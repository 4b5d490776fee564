/*
 * exec-copy: executes an unreadable copy of a system program, so that nobody can trace it. The
 * job's user could otherwise trace a process that runs as him outside the job's cgroups, and run
 * any code there. The kernel lets nobody but root trace a process whose program its owner may not
 * read. To be called by a process that can't be traced itself.
 */
#pragma once

#define EXEC_COPY_PATH "/usr/local/bin:/usr/bin:/bin"

/*
 * name: as execvp(3) finds it in EXEC_COPY_PATH. fd: a descriptor's number that is free to be
 * taken; all above it are closed. Returns only when it failed: -ENOENT and its like; -ENOEXEC: a
 * script, which its interpreter would have to read; -EACCES: this system starts nothing from memory
 * (vm.memfd_noexec=2).
 */
int exec_copy(const char *name, char *const *argv, char *const *envp, int fd);
