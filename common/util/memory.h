/*
 * memory: the memory of the node and of the caller's cgroup, and the number of CPUs. All of it is
 * read from /proc and /sys.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Reads MemTotal and MemAvailable, in bytes. Returns 0 or -errno. */
int memory_read_node(uint64_t *totalp, uint64_t *availablep);

/* Finds the tightest limit of the caller's memory cgroup (v1 or v2) and the groups above it.
 * *usedp: the memory in use in that group, without cached file pages. Returns 0, or -ENOENT if
 * there is no limit. */
int memory_read_cgroup(uint64_t *limitp, uint64_t *usedp);

/* Returns in *bytesp the free space of the file system that contains path, one of our tmpfs. */
int memory_read_fs(const char *path, uint64_t *bytesp);

/* Returns the number of CPUs that this process may use, at least 1. */
unsigned memory_count_cpus(void);
