/*
 * timeline: what a dataset did on a node, and when, from the history that stagingd keeps.
 *
 * If there are many nodes, consecutive nodes form a group, and each group has one row. A group is
 * shown by a node that has failed, or else by its slowest node.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/protocol/stage-state.h"

struct snapshot;
struct snapshot_list;

#define TIMELINE_MAX_STATES 16
#define TIMELINE_MAX_POINTS 64

struct timeline {
	const struct snapshot *snapshot; /* lent */
	uint64_t begun_ms;		 /* Unix time at which the dataset was queued */
	uint64_t age_ms;		 /* the history ends at this time; all times below are
					  * relative to begun_ms */
	struct {
		enum stage_state state;
		uint64_t ms;
	} states[TIMELINE_MAX_STATES]; /* at least one, in the order of time */
	size_t n_states;
	struct {
		uint64_t ms, bytes;
	} points[TIMELINE_MAX_POINTS];
	size_t n_points;
	uint64_t last_read_ms;	      /* time of the last read from a mount; 0: not known */
	uint64_t mem_taken, mem_most; /* memory of the node: taken by all datasets, and the limit;
				       * 0: not known */
	bool slowest;		      /* the slowest of several nodes with this dataset */
};

/* Returns 0, -ENODATA for a message without a history, or -EPROTO for a malformed one. */
int timeline_from_snapshot(struct timeline *t, const struct snapshot *s);

/* Returns the time until the dataset was ready or had failed; age_ms if neither has happened. */
uint64_t timeline_get_wait_ms(const struct timeline *t);

/* Returns the number of bytes at time ms, interpolated linearly between two points. */
uint64_t timeline_get_bytes(const struct timeline *t, uint64_t ms);

/* The axis of a drawing ends with the last read. A job may read for hours after staging, so the
 * axis is at most this many times as long as staging was. */
#define TIMELINE_AXIS_FACTOR 3

struct timeline_list {
	struct timeline *items; /* sorted by dataset, then by node */
	size_t n_items;
	uint64_t begun_ms, end_ms;	       /* Unix time of the first and of the last event */
	uint64_t axis_ms;		       /* length of a drawing's axis, from begun_ms on */
	const struct snapshot_list *snapshots; /* lent */
};

/* Skips snapshots without a history. The snapshots must outlive the list. Returns 0 or -ENOMEM. */
int timeline_list_init(struct timeline_list *l, const struct snapshot_list *snapshots);
void timeline_list_deinit(struct timeline_list *l);

/* Returns the node whose memory for datasets is the fullest; NULL if it is not known of any
 * node. */
const struct timeline *timeline_list_get_fullest(const struct timeline_list *l);

#define TIMELINE_MEMORY_TEXT 512

/* Writes a sentence about this memory. Returns false if it is not known of any node. */
bool timeline_list_get_memory(const struct timeline_list *l,
			      char text[static TIMELINE_MEMORY_TEXT]);

struct timeline_row {
	const struct timeline *timeline; /* the slowest node that failed; if none did, the slowest
					  * node */
	const char *first, *last;	 /* nodes */
	const char *slowest; /* the slowest node of all, if it is in this group; else NULL */
	size_t n_nodes, n_failed;
};

#define TIMELINE_FAILED_TEXT 64

/* Writes "", " failed", or ", 2 of 31 failed" for a group. */
void timeline_row_failed_to_string(const struct timeline_row *row,
				   char buf[static TIMELINE_FAILED_TEXT]);

/* Makes at most max_rows rows, but at least one for each dataset. The caller frees *rowsp. Returns
 * 0 or -ENOMEM. */
int timeline_list_get_rows(const struct timeline_list *l, size_t max_rows,
			   struct timeline_row **rowsp, size_t *n_rowsp);
