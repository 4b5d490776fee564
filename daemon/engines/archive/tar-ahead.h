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
	uint64_t size;	       /* size of the file */
	uint64_t segment_size; /* bytes of the file whose headers one thread reads; 0: chosen by
				* the size of members */
	unsigned n_threads;
	bool nested; /* members that are archives have headers, too */
	/* Reads take no time: the threads read the headers and little else, and stop if reads
	 * become slow. */
	bool is_fast;
};

/* at: present offset of the walk; mean: see tar_ahead_get(). Returns NULL if there is no memory or
 * no thread can be created. */
struct tar_ahead *tar_ahead_new(const struct tar_ahead_options *options, uint64_t at,
				uint64_t mean);
/* Waits for its threads, but not for long. A thread whose read hangs frees the rest. */
void tar_ahead_free(struct tar_ahead *a);
DEFINE_FREEP(struct tar_ahead, tar_ahead_free)

/*
 * Gets bytes that were read from `at` on, lent until the next call. Returns their number; 0:
 * nothing is known about this place; -EAGAIN: the threads have worked on it for TAR_AHEAD_WAIT_MS,
 * call again. at never decreases. mean: recent average distance between headers in bytes.
 */
ssize_t tar_ahead_get(struct tar_ahead *a, uint64_t at, uint64_t mean, const unsigned char **datap);
#define TAR_AHEAD_WAIT_MS 100

/* Does the same for a place where a header may be, such as the content of a member that may be an
 * archive. It does not count for tar_ahead_is_useless(). */
ssize_t tar_ahead_peek(struct tar_ahead *a, uint64_t at, uint64_t mean,
		       const unsigned char **datap);

/* Returns the number of completed reads; 0 if the options say that reads take no time. */
uint64_t tar_ahead_count_reads(struct tar_ahead *a);
/* Returns true if reading ahead does not help: for most places, nothing was known. */
bool tar_ahead_is_useless(const struct tar_ahead *a);
/* Returns true if the options said that reads take no time, and they have become slow. */
bool tar_ahead_is_slow(struct tar_ahead *a);
