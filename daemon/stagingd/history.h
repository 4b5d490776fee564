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

/* An empty history is all zeros. Times are those of the loop. */
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
	uint64_t step_ms; /* minimum time between two points */
	uint64_t read_ms; /* time of the last read from a mounted image; 0: not known */
};

/* Adds a state. If the history is full, the last state is replaced. */
void history_add_state(struct history *h, enum stage_state state, uint64_t now_ms);

/* Adds a point. The last point is always the newest. If the history is full, every second point is
 * dropped. */
void history_add_bytes(struct history *h, uint64_t bytes, uint64_t now_ms);

/* Returns the current wall-clock time. */
uint64_t history_get_unix_ms(void);

/* Sets begun, age, states, series and lastread of docs/protocol.md. unix_ms: now_ms by the wall
 * clock. */
void history_to_kv(const struct history *h, struct kv *kv, uint64_t now_ms, uint64_t unix_ms);
