/*
 * estimate: the size of a compressed file's content, from the fields of its format.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/dataset/facts.h"

struct estimate {
	uint64_t bytes;
	bool exact; /* stored in the file, not estimated from a ratio */
};

/* fd: a regular file of size bytes, which is read by pread only. */
struct estimate estimate_unpacked(int fd, uint64_t size, enum facts_filter filter);
