/*
 * sqfs-jail: a process that may compute, read what is open, and nothing else.
 */
#pragma once

#include <stdint.h>

/*
 * Shuts this process in for good: no files written, no core, no new privileges, and of the system
 * calls only those that computing, pread() and sqfs_jail_limit() take; others fail with EPERM. Best
 * effort: what the kernel does not have is left out. For a child that is about to exit.
 */
void sqfs_jail_enter(void);

/* In there: memory (on top of what it had when it entered), and CPU seconds, past which SIGXCPU
 * ends it. */
void sqfs_jail_limit(uint64_t more_memory, uint32_t cpu_seconds);
