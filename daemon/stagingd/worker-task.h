/*
 * worker-task: the first message to a worker (docs/protocol.md).
 */
#pragma once

#include "common/protocol/kv.h"

struct job;
struct stage;

/* mode: "stage" or "source". NULL without memory. */
struct kv *worker_task_new(const struct job *job, const struct stage *stage, const char *mode,
			   unsigned slot);
