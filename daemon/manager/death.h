/*
 * death: reports a keeper that died before it was asked to end: in the log, in the node's metrics
 * (node-metrics.h) and to the breaker (breaker.h).
 */
#pragma once

struct jobdir;
struct state;

/* Reports the death of a keeper once; then the record names no keeper. The caller must hold the
 * lock of d, st must be its record, and STAGE_RUN_DIR must be open. */
void death_report(const struct jobdir *d, struct state *st);
