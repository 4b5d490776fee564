/*
 * workq: work that makes more work, done by threads. Last in first out, so that trees are walked in
 * depth and the queue stays short.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"

struct workq;

struct work {
	struct work *next;
	void (*run)(struct work *work, void *arg); /* frees work or hands it on */
};

/* arg goes to every run(). */
int workq_new(struct workq **qp, void *arg);
void workq_free(struct workq *q);
DEFINE_FREEP(struct workq, workq_free)

/* From any thread, also before workq_run(). */
void workq_push(struct workq *q, struct work *work);

/* Works with n_threads, the caller being one of them, until nothing is left. A thread that can't be
 * made is done without. */
void workq_run(struct workq *q, size_t n_threads);

/* More threads while it runs, up to a total of n_threads; for when each waits and none computes. */
void workq_grow(struct workq *q, size_t n_threads);

/* Cheap looks that may be wrong a moment later: works that nobody has begun; threads that have
 * nothing to do. */
size_t workq_get_queued(const struct workq *q);
size_t workq_get_waiting(const struct workq *q);
