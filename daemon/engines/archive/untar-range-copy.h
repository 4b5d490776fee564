/*
 * untar-range-copy: the writer of a member copies the range that was left in the archive's file
 * (stream_leave()), and idle writers help.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

#define RANGE_COPY_MAX_WRITERS 16 /* at one time */

struct stage_io;
struct error;
struct range_copy;

/* Makes the object that several writers share. io (may be NULL) still belongs to the caller.
 * Returns 0 or -ENOMEM. */
int range_copy_new(struct range_copy **lp, struct stage_io *io);
void range_copy_free(struct range_copy *l);
DEFINE_FREEP(struct range_copy, range_copy_free)

/* A writer. `changed` is signalled under lock when there is something to help with, and when no
 * ranges are announced any more. */
struct range_copy_writer {
	pthread_mutex_t *lock;
	pthread_cond_t *changed;
	/* Private to untar-range-copy.c; zeroed at first: */
	char *buf;
	size_t size;
	bool fails; /* there was no memory for the buffer */
};
/* At most RANGE_COPY_MAX_WRITERS are between these two. */
void range_copy_join(struct range_copy *l, struct range_copy_writer *w);
void range_copy_leave(struct range_copy *l, struct range_copy_writer *w);

/* range_copy_announce() records a range of n bytes that will be copied, range_copy_settle() that it
 * was copied or given up. Idle writers wait until all ranges are settled, so that they can help.
 * Small ranges are not counted. */
void range_copy_announce(struct range_copy *l, uint64_t n);
void range_copy_settle(struct range_copy *l, uint64_t n);
bool range_copy_is_settled(const struct range_copy *l);

struct archive_range {
	int in, out;
	uint64_t in_at;	   /* offset of the first byte in in */
	uint64_t from, to; /* offsets in out */
};

/* Copies the range. Returns 0 when all of it is copied, or -errno. */
int range_copy_run(struct range_copy *l, struct range_copy_writer *w,
		   const struct archive_range *range, struct error *err);

/* Returns true if a range needs help. Called with a writer's lock held. */
bool range_copy_wants_help(const struct range_copy *l, const struct range_copy_writer *w);
/* Copies a part of a range that needs help. Called without a lock. */
void range_copy_help(struct range_copy *l, struct range_copy_writer *w);
