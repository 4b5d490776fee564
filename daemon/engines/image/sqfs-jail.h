/*
 * sqfs-jail: a process that may compute, read what is open, and nothing else.
 */
#pragma once

#include <stdint.h>

/*
 * Restricts this process for ever: it cannot write files, make a core file or get privileges, and
 * may use only the system calls for computing, pread() and sqfs_jail_limit(). Other calls fail with
 * EPERM. Restrictions that the kernel does not support are left out. For a child that will exit
 * soon.
 */
void sqfs_jail_enter(void);

/* Called after sqfs_jail_enter(). Limits the memory (in addition to that at sqfs_jail_enter()) and
 * the CPU seconds, after which SIGXCPU ends the process. */
void sqfs_jail_limit(uint64_t more_memory, uint32_t cpu_seconds);
