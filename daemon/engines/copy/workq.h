/*
 * workq: work items that threads do, and that may add more items. The last item is done first, so
 * that trees are walked depth first and the queue stays short.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"

struct workq;

struct work {
	struct work *next;
	void (*run)(struct work *work, void *arg); /* frees work or pushes it again */
};

/* arg: passed to each run(). */
int workq_new(struct workq **qp, void *arg);
void workq_free(struct workq *q);
DEFINE_FREEP(struct workq, workq_free)

/* May be called by any thread, also before workq_run(). */
void workq_push(struct workq *q, struct work *work);

/* Does all work with n_threads threads, including the caller. If a thread cannot be created, the
 * others do its work. */
void workq_run(struct workq *q, size_t n_threads);

/* Adds threads while the queue runs, up to a total of n_threads. For work that waits and does not
 * compute. */
void workq_grow(struct workq *q, size_t n_threads);

/* Return the number of works that have not begun, and of threads that wait for work. Both are
 * cheap, and may have changed a moment later. */
size_t workq_get_queued(const struct workq *q);
size_t workq_get_waiting(const struct workq *q);
