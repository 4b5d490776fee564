/*
 * block: a piece of a stream, shared by reference count, usable from any thread. Blocks come from
 * pools with a bounded number of blocks, so that a reader cannot get far ahead of a writer. A
 * thread that waits for a block waits for the threads that hold blocks. So a thread that holds
 * blocks of a stream must return each of them without taking another block of the same stream, also
 * on failure. A queue of jobs may hold blocks as long as a thread does the jobs.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

struct block_pool;

#define BLOCK_SIZE (1u << 20)

struct block {
	const unsigned char *data; /* NULL: not read; see block_new_left() */
	size_t size;
	int fd;
	uint64_t at;

	/* Private to block.c: */
	atomic_uint n_refs;
	unsigned char *buf; /* memory of capacity bytes, for the thread that fills the block;
			     * NULL: the block does not own data */
	size_t capacity;
	struct block_pool *pool;
	struct block *next;
};

struct block *block_get(struct block *b); /* adds a reference; returns b */
void block_put(struct block *b);	  /* drops a reference; b may be NULL */
DEFINE_FREEP(struct block, block_put)

/* Makes a pool of n_blocks blocks of block_size bytes, which are allocated when they are first
 * taken. Returns 0 or -ENOMEM. */
int block_pool_new(struct block_pool **pp, size_t n_blocks, size_t block_size);
/* Changes the number of blocks. Surplus blocks are freed when they are put. */
void block_pool_set_max(struct block_pool *p, size_t n_blocks);
/* Makes all present and future calls of block_pool_take() return -ECANCELED. May be called by any
 * thread. */
void block_pool_stop(struct block_pool *p);
/* Stops the pool. Blocks that are still held stay valid, and the last of them frees the pool. */
void block_pool_free(struct block_pool *p);
DEFINE_FREEP(struct block_pool, block_pool_free)

/* Returns true if block_pool_take() would wait now. */
bool block_pool_is_empty(struct block_pool *p);
/* Waits for a free block, and sets its data to its memory and its size to 0. Returns 0, -ECANCELED
 * when the pool is stopped, or -ENOMEM. */
int block_pool_take(struct block_pool *p, struct block **bp);

/* Makes a block that belongs to no pool, around bytes that must outlive it. Returns 0 or
 * -ENOMEM. */
int block_new_around(struct block **bp, const void *data, size_t size);

/* Makes a block without data, which stands for size bytes of fd from `at` on. The thread that needs
 * these bytes reads them. fd must outlive the block. Returns 0 or -ENOMEM. */
int block_new_left(struct block **bp, int fd, uint64_t at, size_t size);
