/*
 * breaker: after BREAKER_LIMIT crashes of keepers on this node within BREAKER_WINDOW_MS there is
 * no staging here, until `stage-keeper reap` finds the last one older than that.
 *
 * For the plugin: where the file STAGE_RUN_DIR "/" BREAKER_FILE exists, don't start a keeper;
 * access(2) is enough. Its text is a sentence for the user.
 */
#pragma once

#include <stdbool.h>

#include "common/protocol/rundir.h"

#define BREAKER_FILE RUNDIR_BREAKER
#define BREAKER_COUNT_FILE RUNDIR_CRASHES
#define BREAKER_LIMIT 3
#define BREAKER_WINDOW_MS (60 * 60 * 1000)

/* STAGE_RUN_DIR must be open for both functions (jobdir_open_base()). */

/* Counts a keeper that died without cleaning up. Returns true if the breaker has opened. */
bool breaker_count(void);

/* Forgets old crashes. Returns true if the breaker is closed now. */
bool breaker_reset(void);
