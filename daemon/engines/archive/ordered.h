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

/* Threads that can't be made are done without; with none ordered_push() does the job itself. */
int ordered_new(struct ordered **op, size_t n_slots, size_t n_threads, ordered_run_fn run,
		void *arg);
/* Waits for jobs that are being done; others are dropped. */
void ordered_free(struct ordered *o);
DEFINE_FREEP(struct ordered, ordered_free)

/* Slots that are given and not yet taken back. */
size_t ordered_n_pending(const struct ordered *o);
/* The slot that is given next. Not while all are pending. */
size_t ordered_get_slot(const struct ordered *o);
void ordered_push(struct ordered *o);
/* Waits for the oldest, which is pending no more. */
size_t ordered_pop(struct ordered *o);

/* How many threads are worth having beside the one that reads. */
size_t ordered_get_default_threads(void);
