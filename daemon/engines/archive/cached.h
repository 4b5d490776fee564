/*
 * cached: reads the part of a file that is in memory, without waiting for the rest.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads what is cached. Returns the bytes read; 0 at end of file; -1 with errno EAGAIN (not cached)
 * or EOPNOTSUPP (the file system cannot tell). See preadv2(2), RWF_NOWAIT. */
ssize_t cached_read(int fd, void *buf, size_t size, uint64_t offset);

/*
 * Reads many pages that are cached, and waits for single pages in between. Reason: the kernel does
 * not return a cached page that its read-ahead has marked (PG_readahead), because reading this page
 * must start more read-ahead. Ends when two pages in a row are not cached. Returns the bytes read.
 */
size_t cached_read_pages(int fd, void *buf, size_t size, uint64_t offset);
