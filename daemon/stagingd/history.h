/*
 * history: the times at which a dataset changed its state, and the number of bytes at several
 * times. Its size is bounded. `stagectl report` shows it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/protocol/stage-state.h"

struct kv;

#define HISTORY_MAX_STATES 16
#define HISTORY_MAX_POINTS 64

/* All zeros is an empty one. Times are those of the loop. */
struct history {
	struct {
		enum stage_state state;
		uint64_t ms;
	} states[HISTORY_MAX_STATES];
	size_t n_states;
	struct {
		uint64_t ms, bytes;
	} points[HISTORY_MAX_POINTS];
	size_t n_points;
	uint64_t step_ms; /* between two points */
	uint64_t read_ms; /* the last read of what is mounted; 0: none is known */
};

/* When there are too many, the last one is replaced. */
void history_add_state(struct history *h, enum stage_state state, uint64_t now_ms);

/* The last point is always the newest one. When there are too many, every second one is dropped. */
void history_add_bytes(struct history *h, uint64_t bytes, uint64_t now_ms);

/* Now, by the wall clock. */
uint64_t history_get_unix_ms(void);

/* Sets begun, age, states, series and lastread of docs/protocol.md. unix_ms: now_ms by the wall
 * clock. */
void history_to_kv(const struct history *h, struct kv *kv, uint64_t now_ms, uint64_t unix_ms);
