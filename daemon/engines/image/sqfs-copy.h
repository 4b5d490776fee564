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

/* Of size bytes, in fd, which stays the caller's; nothing is there yet. NULL: no memory. */
struct sqfs_copy *sqfs_copy_new(int fd, uint64_t size);
void sqfs_copy_free(struct sqfs_copy *c);
DEFINE_FREEP(struct sqfs_copy, sqfs_copy_free)

int sqfs_copy_get_fd(const struct sqfs_copy *c);

/* The piece that begins at offset, a multiple of SQFS_COPY_PIECE, is written. */
void sqfs_copy_add(struct sqfs_copy *c, uint64_t offset);
/* Are all of these bytes there? False for what lies outside. */
bool sqfs_copy_has(const struct sqfs_copy *c, uint64_t offset, size_t size);
