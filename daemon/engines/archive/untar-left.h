/*
 * untar-left: the writer of a member copies the range that was left in the archive's file
 * (stream_leave()), and idle writers help.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/util/cleanup.h"

#define LEFT_MAX_WRITERS 16 /* at one time */

struct stage_io;
struct error;
struct left;

/* Makes the object that several writers share. io (may be NULL) still belongs to the caller.
 * Returns 0 or -ENOMEM. */
int left_new(struct left **lp, struct stage_io *io);
void left_free(struct left *l);
DEFINE_FREEP(struct left, left_free)

/* A writer. `changed` is signalled under lock when there is something to help with, and when no
 * ranges are announced any more. */
struct left_writer {
	pthread_mutex_t *lock;
	pthread_cond_t *changed;
	/* Private to untar-left.c; zeroed at first: */
	char *buf;
	size_t size;
	bool fails; /* there was no memory for the buffer */
};
/* At most LEFT_MAX_WRITERS are between these two. */
void left_join(struct left *l, struct left_writer *w);
void left_part(struct left *l, struct left_writer *w);

/* left_announce() records a range of n bytes that will be copied, left_settle() that it was copied
 * or given up. Idle writers wait until all ranges are settled, so that they can help. Small ranges
 * are not counted. */
void left_announce(struct left *l, uint64_t n);
void left_settle(struct left *l, uint64_t n);
bool left_is_settled(const struct left *l);

struct left_range {
	int in, out;
	uint64_t in_at;	   /* offset of the first byte in in */
	uint64_t from, to; /* offsets in out */
};

/* Copies the range. Returns 0 when all of it is copied, or -errno. */
int left_copy(struct left *l, struct left_writer *w, const struct left_range *range,
	      struct error *err);

/* Returns true if a range needs help. Called with a writer's lock held. */
bool left_wants_help(const struct left *l, const struct left_writer *w);
/* Copies a part of a range that needs help. Called without a lock. */
void left_help(struct left *l, struct left_writer *w);
