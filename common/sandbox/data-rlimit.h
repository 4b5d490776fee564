/*
 * data-rlimit: limits the memory of decompressors. A header of the archive decides how much memory
 * they need: an xz or lzma dictionary may have 4 GiB, and libarchive allocates it. Without this
 * limit, the job's memory cgroup would end the worker, or the kernel would kill other jobs if Slurm
 * does not limit memory.
 */
#pragma once

#include <stdint.h>

/* Room for xz's largest dictionary, 1.5 GiB, and all else. Others need 128 MiB at most (zstd). */
#define DATA_RLIMIT_MIB 2048u

/*
 * From now on, this process and its children get at most that much memory in addition to what they
 * use, and to the stacks and buffers of n_threads. Requests for more fail with ENOMEM. A second
 * call changes nothing.
 */
void data_rlimit_set(unsigned n_threads);

/* The same with a smaller limit: `more` bytes. An existing limit can only become smaller. */
void data_rlimit_set_to(uint64_t more, unsigned n_threads);
