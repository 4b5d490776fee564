/*
 * grant: the answer to a worker that wants room in a tier.
 */
#pragma once

#include <stdint.h>

struct job;
struct kv;
struct stage;

/* Asks the budget and, where there is room, notes it down. The `grant` message; NULL without
 * memory. */
struct kv *grant_ask(struct job *job, const struct stage *stage, const char *tier, uint64_t bytes,
		     uint64_t files);
