/*
 * data-rlimit: limits the memory of decompressors. A header of the archive decides how much memory
 * they need: an xz or lzma dictionary may have 4 GiB, and libarchive allocates it. Without this
 * limit, the job's memory cgroup would end the worker, or the kernel would kill other jobs if Slurm
 * does not limit memory.
 */
#pragma once

#include <stdint.h>

/* Enough for xz's largest dictionary, 1.5 GiB, and everything else. Other formats need at most 128
 * MiB (zstd). */
#define DATA_RLIMIT_MIB 2048u

/* Limits the memory of this process and its children to DATA_RLIMIT_MIB, in addition to what they
 * use now and to the stacks and buffers of n_threads. Larger requests fail with ENOMEM. A second
 * call has no effect. */
void data_rlimit_set(unsigned n_threads);

/* Does the same with a limit of `more` bytes. It can only lower an existing limit. */
void data_rlimit_set_to(uint64_t more, unsigned n_threads);

/* Raises a limit by `more` bytes, for memory that was reserved for another purpose. */
void data_rlimit_add(uint64_t more);
