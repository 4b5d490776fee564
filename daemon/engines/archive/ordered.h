/*
 * ordered: threads do jobs, which are returned in the order in which they were added. The caller
 * owns the jobs, in slots 0 to n_slots - 1.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"

struct ordered;

typedef void (*ordered_run_fn)(void *arg, size_t slot);

/* If fewer threads can be created, these do all jobs; if none can, ordered_push() does the job
 * itself. */
int ordered_new(struct ordered **op, size_t n_slots, size_t n_threads, ordered_run_fn run,
		void *arg);
/* Waits for running jobs; other jobs are dropped. */
void ordered_free(struct ordered *o);
DEFINE_FREEP(struct ordered, ordered_free)

/* Returns the number of slots that were pushed and not popped yet. */
size_t ordered_n_pending(const struct ordered *o);
/* Returns the slot that ordered_push() uses next. Must not be called while all slots are
 * pending. */
size_t ordered_get_slot(const struct ordered *o);
void ordered_push(struct ordered *o);
/* Waits for the oldest job and returns its slot, which is no longer pending. */
size_t ordered_pop(struct ordered *o);

/* Returns the useful number of threads in addition to the one that reads. */
size_t ordered_get_default_threads(void);
