/*
 * RLIMIT_DATA counts private memory that can be written to, stacks of threads with all of their 8
 * MiB, but no address space that is merely reserved, as glibc does 64 MiB a thread. It is the soft
 * limit, because the check of an image, which knows the memory that it needs, removes it again.
 */
#include "common/sandbox/data-rlimit.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/util/cleanup.h"

#define DATA_RLIMIT_THREAD (16u << 20)
#define DATA_RLIMIT_OWN_THREADS 8 /* for reading ahead, checksums, … */

/* Returns the bytes that already count; with sanitizers these are terabytes. 0: not known. */
static uint64_t get_data_size(void)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/statm", "re");
	unsigned long long pages;

	if (!f || fscanf(f, "%*s %*s %*s %*s %*s %llu", &pages) != 1)
		return 0;
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void data_rlimit_set_to(uint64_t more, unsigned n_threads)
{
	uint64_t size = get_data_size();
	struct rlimit limit;

	if (size == 0 || getrlimit(RLIMIT_DATA, &limit) < 0)
		return;
	size += more + (uint64_t)(n_threads + DATA_RLIMIT_OWN_THREADS) * DATA_RLIMIT_THREAD;
	if (size >= limit.rlim_cur)
		return;
	limit.rlim_cur = size;
	(void)setrlimit(RLIMIT_DATA, &limit);
}

void data_rlimit_set(unsigned n_threads)
{
	static bool is_set;

	if (!is_set)
		data_rlimit_set_to((uint64_t)DATA_RLIMIT_MIB << 20, n_threads);
	is_set = true;
}

void data_rlimit_add(uint64_t more)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_DATA, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return;
	if (more > limit.rlim_max - limit.rlim_cur)
		more = limit.rlim_max - limit.rlim_cur;
	limit.rlim_cur += more;
	(void)setrlimit(RLIMIT_DATA, &limit);
}
