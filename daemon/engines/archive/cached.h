/*
 * cached: reads the part of a file that is in memory, without waiting for the rest.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How much of size bytes at offset was there; -1 with errno as preadv2(2) has it, RWF_NOWAIT:
 * EAGAIN, or EOPNOTSUPP where the file system can't tell. 0 is the end. */
ssize_t cached_read(int fd, void *buf, size_t size, uint64_t offset);

/*
 * The same of many pages, of which single ones are waited for: the kernel won't give a page that
 * its read-ahead has marked (PG_readahead), although it is there, since coming to it calls for more
 * reading. What is missing in a row ends it. How much was read.
 */
size_t cached_read_pages(int fd, void *buf, size_t size, uint64_t offset);
