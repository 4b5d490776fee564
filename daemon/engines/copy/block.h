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
	const unsigned char *data; /* NULL: not read, see block_new_left() */
	size_t size;
	int fd;
	uint64_t at;

	/* block.c's */
	atomic_uint n_refs;
	unsigned char *buf; /* of capacity bytes, for who fills it; NULL: data is somebody else's */
	size_t capacity;
	struct block_pool *pool;
	struct block *next;
};

struct block *block_get(struct block *b); /* one more reference; returns b */
void block_put(struct block *b);	  /* NULL is fine */
DEFINE_FREEP(struct block, block_put)

/* n_blocks of block_size bytes each, made when they are first taken. */
int block_pool_new(struct block_pool **pp, size_t n_blocks, size_t block_size);
/* Another number of blocks; those that are too many go when they are put. */
void block_pool_set_max(struct block_pool *p, size_t n_blocks);
/* Ends all waiting, from any thread: from now on nothing is to be had. */
void block_pool_stop(struct block_pool *p);
/* Stops it. Blocks that are still held stay good, the last of them takes the pool along. */
void block_pool_free(struct block_pool *p);
DEFINE_FREEP(struct block_pool, block_pool_free)

/* Would block_pool_take() wait now? */
bool block_pool_is_empty(struct block_pool *p);
/* Waits for a free block: data is at buf, size 0. 0, -ECANCELED when stopped, -ENOMEM. */
int block_pool_take(struct block_pool *p, struct block **bp);

/* A block that belongs to no pool, around bytes that outlive it. -ENOMEM. */
int block_new_around(struct block **bp, const void *data, size_t size);

/* One without data: whoever needs the bytes reads size of them from `at` of fd on, which outlives
 * it. -ENOMEM. */
int block_new_left(struct block **bp, int fd, uint64_t at, size_t size);
