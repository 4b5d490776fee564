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

/* Of several writers. io stays the caller's, may be NULL. -ENOMEM. */
int left_new(struct left **lp, struct stage_io *io);
void left_free(struct left *l);
DEFINE_FREEP(struct left, left_free)

/* A writer is woken by changed, under lock, when there is something to help with, and when nothing
 * is announced any more. */
struct left_writer {
	pthread_mutex_t *lock;
	pthread_cond_t *changed;
	/* the writer's own, and untar-left.c's: begin zeroed */
	char *buf;
	size_t size;
	bool fails; /* there was no memory for it */
};
/* At most LEFT_MAX_WRITERS are between these two. */
void left_join(struct left *l, struct left_writer *w);
void left_part(struct left *l, struct left_writer *w);

/* n bytes more are going to be copied, or given up. Who has nothing to do stays as long as there
 * are some that he could help with: not with few. */
void left_announce(struct left *l, uint64_t n);
void left_settle(struct left *l, uint64_t n);
bool left_is_settled(const struct left *l);

struct left_range {
	int in, out;
	uint64_t in_at;	   /* of the first byte */
	uint64_t from, to; /* in out */
};

/* Done when it comes back, or -errno. */
int left_copy(struct left *l, struct left_writer *w, const struct left_range *range,
	      struct error *err);

/* Is there something to help with? Under a writer's lock. */
bool left_wants_help(const struct left *l, const struct left_writer *w);
/* Does a part of it; not under a lock. */
void left_help(struct left *l, struct left_writer *w);
