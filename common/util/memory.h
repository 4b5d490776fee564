/*
 * memory: what the node and the caller's memory cgroup have, and its CPUs. Read from /proc and
 * /sys only.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* MemTotal and MemAvailable in bytes; -errno. */
int memory_read_node(uint64_t *totalp, uint64_t *availablep);

/*
 * The tightest limit of the caller's memory cgroup (v1 or v2) and those above it, and the memory
 * that is used there, without the page cache of files. -ENOENT: no limit.
 */
int memory_read_cgroup(uint64_t *limitp, uint64_t *usedp);

/* Room in the file system that holds path, which is one of ours (tmpfs). */
int memory_read_fs(const char *path, uint64_t *bytesp);

/* CPUs this process may run on, at least 1. */
unsigned memory_count_cpus(void);
