/*
 * page: the pages of memory that a file in a tmpfs takes. Their size is 4 KiB on x86 and up to
 * 64 KiB on ARM and POWER. On a disk a file takes at most as much.
 */
#pragma once

#include <stdint.h>
#include <unistd.h>

/* Of a directory or a link, too. */
static inline uint64_t page_get_size(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* n bytes in whole pages; n itself if they are more than a number can tell. */
static inline uint64_t page_round_up(uint64_t n)
{
	const uint64_t size = page_get_size();

	return n > UINT64_MAX - size ? n : (n + size - 1) / size * size;
}
