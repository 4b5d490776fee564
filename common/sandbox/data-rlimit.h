/*
 * data-rlimit: how much memory the unpackers may have. What a header asks for is the archive's
 * word: an xz or lzma dictionary has up to 4 GiB, and libarchive gives it that. The job's group of
 * memory would end the worker, or the node its neighbours' jobs where Slurm does not limit memory.
 */
#pragma once

#include <stdint.h>

/* Room for xz's largest dictionary, 1.5 GiB, and all else. Others need 128 MiB at most (zstd). */
#define DATA_RLIMIT_MIB 2048u

/*
 * From here on this process gets no more than that beside what it has, and the stacks and buffers
 * of n_threads; more is ENOMEM where it is asked for. For all of its threads and children. Once is
 * enough; a second call changes nothing.
 */
void data_rlimit_set(unsigned n_threads);

/* The same for who needs less: `more` bytes. What is set already becomes less, never more. */
void data_rlimit_set_to(uint64_t more, unsigned n_threads);
