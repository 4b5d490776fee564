/*
 * summary: the datasets of many nodes, one line each. The output is bounded, whatever the number of
 * nodes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/protocol/stage-state.h"

struct snapshot;
struct snapshot_list;

/* Up to this number of nodes, each node has its own row. */
#define SUMMARY_MAX_ROWS 8

/* Returns whether the list has more than SUMMARY_MAX_ROWS nodes. */
bool summary_is_wanted(const struct snapshot_list *l);

/* One dataset on all nodes. The list owns the snapshots and texts. */
struct summary {
	const char *name;
	size_t n_nodes, n_states[STAGE_N_STATES], n_warned;
	uint64_t bytes, total; /* sums for all nodes; total is 0 if it is unknown for one of them */
	bool lacks_total;      /* it is unknown for one of them */
	uint64_t rate, eta_ms; /* sum of the rates; longest ETA */
	const struct snapshot *slowest; /* NULL: all have failed or were released */
	const struct snapshot *fastest;
};

#define SUMMARY_STATES_TEXT 160

/* Sums up the dataset `name` on all nodes. */
void summary_of(struct summary *s, const struct snapshot_list *l, const char *name);

/* Sums up each dataset, in the order of the list. Reads the list once. The caller frees *sp.
 * Returns 0 or -ENOMEM. */
int summary_of_all(struct summary **sp, size_t *np, const struct snapshot_list *l);

/* Returns 0 to 100, or -1 if unknown. 100 only if the dataset is ready on each node. */
int summary_get_percent(const struct summary *s);

/* Writes "990 ready, 8 staging, 2 failed". Returns buf. */
const char *summary_get_states(const struct summary *s, char buf[static SUMMARY_STATES_TEXT]);

/* Prints a line for each reason, with the nodes that failed for this reason. */
void summary_print_failures(const struct snapshot_list *l, FILE *f);

/* Prints a table with one row per dataset, then the failed nodes by reason. Returns 0 or
 * -ENOMEM. */
int summary_print(const struct snapshot_list *l, FILE *f);
