/*
 * page: the size of a page of memory. A file in a tmpfs uses whole pages. They have 4 KiB on x86
 * and up to 64 KiB on ARM and POWER. On a disk, a file does not use more.
 */
#pragma once

#include <stdint.h>
#include <unistd.h>

/* Returns the size of a page, which is also what a directory or a link uses in a tmpfs. */
static inline uint64_t page_get_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Rounds n up to whole pages. Returns n itself if the result does not fit. */
static inline uint64_t page_round_up(uint64_t n)
{
	const uint64_t size = page_get_size();

	return n > UINT64_MAX - size ? n : (n + size - 1) / size * size;
}
