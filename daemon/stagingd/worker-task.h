/*
 * worker-task: the first message to a worker (docs/protocol.md).
 */
#pragma once

#include "common/protocol/kv.h"

struct job;
struct stage;

/* Builds the task. mode: "stage", or "source" for the link of onfail=source. Returns NULL if out of
 * memory. */
struct kv *worker_task_new(const struct job *job, const struct stage *stage, const char *mode,
			   unsigned slot);
