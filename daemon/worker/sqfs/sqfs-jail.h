/*
 * sqfs-jail: a process that may compute, read what is open, and nothing else.
 */
#pragma once

#include <stdint.h>

/*
 * Shuts this process in for good: memory (on top of what it has), CPU seconds, no files written, no
 * core, no new privileges, and of the system calls only those that computing and pread take; others
 * fail with EPERM. Best effort: what the kernel does not have is left out. For a child that is
 * about to exit.
 */
void sqfs_jail_enter(uint64_t more_memory, uint32_t cpu_seconds);
