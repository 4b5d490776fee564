/*
 * stage-state: the states of a dataset, with the names that the daemon, clients and manual use.
 */
#pragma once

#include <stdbool.h>

enum stage_state {
	STAGE_QUEUED,
	STAGE_PROBING,
	STAGE_PREPARING,
	STAGE_STAGING,
	STAGE_READY,
	STAGE_RELEASING,
	STAGE_UNDOING,
	STAGE_RELEASED,
	STAGE_FAILED,
	STAGE_N_STATES,
};

const char *stage_state_to_string(enum stage_state s);
int stage_state_from_string(const char *s, enum stage_state *sp);

/* Returns whether the state is ready, released or failed. Clients that wait get their answer
 * then. */
bool stage_state_is_final(enum stage_state s);
