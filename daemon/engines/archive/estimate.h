/*
 * estimate: the size of a compressed file's content, from the fields of its format.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/dataset/facts.h"

struct estimate {
	uint64_t bytes;
	bool exact; /* said by the format itself, not guessed from a ratio */
};

/* fd is a regular file of size bytes; read with pread alone. */
struct estimate estimate_unpacked(int fd, uint64_t size, enum facts_filter filter);
