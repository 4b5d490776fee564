/*
 * sqfs-ahead: decompresses what a sequential reader will ask for next.
 *
 * A thread that has answered a read continues with the file's next blocks as long as another thread
 * waits for requests, so read-ahead does not delay waiting readers.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct sqfs_ahead;
struct sqfs_image;
struct sqfs_inode;

/* n_idle: number of threads that wait for requests; only read here. max_blocks: limit of blocks
 * ahead of a reader. */
int sqfs_ahead_new(struct sqfs_ahead **ap, struct sqfs_image *img, const atomic_uint *n_idle,
		   unsigned max_blocks);
void sqfs_ahead_free(struct sqfs_ahead *a);
DEFINE_FREEP(struct sqfs_ahead, sqfs_ahead_free)

/* Called after a read of size bytes at pos was answered. Reads ahead if the read follows another
 * one. */
void sqfs_ahead_run(struct sqfs_ahead *a, const struct sqfs_inode *inode, uint64_t pos,
		    size_t size);
