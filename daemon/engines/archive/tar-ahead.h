/*
 * tar-ahead: the headers of a tar, read by several threads before they are needed. This module
 * decides nothing. It only provides bytes of the file, which the walk in the order of the archive
 * checks. All calls are made by one thread, the one that walks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"

struct tar_ahead;

struct tar_ahead_options {
	int fd;
	uint64_t size;	       /* of the file */
	uint64_t segment_size; /* of which one thread reads the headers; 0: by the members' size */
	unsigned n_threads;
};

/* at: where the walk is. NULL: no memory, or no thread. */
struct tar_ahead *tar_ahead_new(const struct tar_ahead_options *options, uint64_t at,
				uint64_t mean);
/* Waits for its threads, but not for long: one whose read hangs frees what is left. */
void tar_ahead_free(struct tar_ahead *a);
DEFINE_FREEP(struct tar_ahead, tar_ahead_free)

/*
 * What was read from `at` on, lent until the next call: how many bytes, or 0: nothing is known of
 * that place. at never decreases. mean: bytes from one header to the next, lately. -EAGAIN: the
 * threads are at it, and have been for TAR_AHEAD_WAIT_MS: ask again.
 */
ssize_t tar_ahead_get(struct tar_ahead *a, uint64_t at, uint64_t mean, const unsigned char **datap);
#define TAR_AHEAD_WAIT_MS 100

/* Reads that came back so far. */
uint64_t tar_ahead_count_reads(struct tar_ahead *a);
/* It does not pay: most places that were asked for were not known. */
bool tar_ahead_is_useless(const struct tar_ahead *a);
