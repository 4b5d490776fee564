/*
 * breaker: if BREAKER_LIMIT keepers crash on this node within BREAKER_WINDOW_MS, staging is off,
 * until `stage-keeper reap` finds that the last crash was longer ago than that.
 *
 * For the plugin: if the file STAGE_RUN_DIR "/" BREAKER_FILE exists, the plugin starts no keeper.
 * access(2) is enough to check this. The text of the file is a sentence for the user.
 */
#pragma once

#include <stdbool.h>

#include "common/protocol/rundir.h"

#define BREAKER_FILE RUNDIR_BREAKER
#define BREAKER_COUNT_FILE RUNDIR_CRASHES
#define BREAKER_LIMIT 3
#define BREAKER_WINDOW_MS (60 * 60 * 1000)

struct jobdir;
struct state;

/* STAGE_RUN_DIR must be open for these functions (jobdir_open_base()). */

/* Reports the death of a keeper that nobody has asked to end, once: in the log, in the node's
 * metrics and to the breaker. The record names no keeper after that. The caller must hold the lock
 * of d, and st must be its record. */
void breaker_report_death(const struct jobdir *d, struct state *st);

/* Counts a keeper that died without cleaning up. Returns true if the breaker has opened. */
bool breaker_count(void);

/* Forgets old crashes. Returns true if the breaker is closed now. */
bool breaker_reset(void);
