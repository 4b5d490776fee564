/*
 * death: reports a keeper that died before it was asked to end: in the log, in the node's metrics
 * (metrics.h) and to the breaker (breaker.h).
 */
#pragma once

struct jobdir;
struct state;

/* Nobody holds the lock of d but the caller, and st is its record. Reports a keeper that died,
 * once: after that the record names none. STAGE_RUN_DIR is open. */
void death_report(const struct jobdir *d, struct state *st);
