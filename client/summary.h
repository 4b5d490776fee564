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

/* Up to so many nodes have a row each. */
#define SUMMARY_MAX_ROWS 8

/* Has the list more nodes than that? */
bool summary_is_wanted(const struct snapshot_list *l);

/* One dataset on all nodes. The snapshots and texts are lent by the list. */
struct summary {
	const char *name;
	size_t n_nodes, n_states[STAGE_N_STATES], n_warned;
	uint64_t bytes, total; /* of all nodes; total 0: one is unknown */
	uint64_t rate, eta_ms; /* the rate of all nodes, the time that the last one needs */
	const struct snapshot *slowest; /* NULL: all have failed or were released */
	const struct snapshot *fastest;
};

/* Has no item before i the same name? A walk of the list meets each dataset once. */
bool summary_is_first(const struct snapshot_list *l, size_t i);

#define SUMMARY_STATES_TEXT 160

/* Sums up the nodes on which the dataset has that name. */
void summary_of(struct summary *s, const struct snapshot_list *l, const char *name);

/* 0..100; 100 only when it is ready on each node; -1: unknown. */
int summary_get_percent(const struct summary *s);

/* "990 ready, 8 staging, 2 failed". Returns buf. */
const char *summary_get_states(const struct summary *s, char buf[static SUMMARY_STATES_TEXT]);

/* A line for each reason, with the nodes that failed by it. */
void summary_print_failures(const struct snapshot_list *l, FILE *f);

/* A table with one row per dataset, then the failed nodes by reason. 0 or -ENOMEM. */
int summary_print(const struct snapshot_list *l, FILE *f);
