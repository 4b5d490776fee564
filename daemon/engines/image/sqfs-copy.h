/*
 * sqfs-copy: records which parts of an image exist in a copy that is being made. Any number of
 * threads may call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

#define SQFS_COPY_PIECE (2u << 20) /* the unit of the table of copied pieces */

struct sqfs_copy;

/* Makes the record of a copy of size bytes in fd, which still belongs to the caller. No part exists
 * at first. NULL: no memory. */
struct sqfs_copy *sqfs_copy_new(int fd, uint64_t size);
void sqfs_copy_free(struct sqfs_copy *c);
DEFINE_FREEP(struct sqfs_copy, sqfs_copy_free)

int sqfs_copy_get_fd(const struct sqfs_copy *c);

/* Records that the piece at offset, a multiple of SQFS_COPY_PIECE, was written. */
void sqfs_copy_add(struct sqfs_copy *c, uint64_t offset);
/* Returns true if all these bytes exist in the copy. False for bytes outside the image. */
bool sqfs_copy_has(const struct sqfs_copy *c, uint64_t offset, size_t size);
