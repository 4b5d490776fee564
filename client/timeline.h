/*
 * timeline: what a dataset did on a node, and when, from the history that stagingd keeps.
 *
 * Many nodes become few rows: neighbours are a group. A group is shown by a node that has failed,
 * or else by its slowest node.
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
	uint64_t begun_ms;		 /* Unix time at which it was queued */
	uint64_t age_ms;		 /* the other times count from begun_ms, and end here */
	struct {
		enum stage_state state;
		uint64_t ms;
	} states[TIMELINE_MAX_STATES]; /* one at least, in the order of time */
	size_t n_states;
	struct {
		uint64_t ms, bytes;
	} points[TIMELINE_MAX_POINTS];
	size_t n_points;
	uint64_t last_read_ms;	      /* of what is mounted; 0: not known */
	uint64_t mem_taken, mem_most; /* of the node: by all datasets; 0: not known */
	bool slowest;		      /* of the nodes with that dataset, if there are several */
};

/* 0, -ENODATA for a message without history, -EPROTO for one that is malformed. */
int timeline_from_snapshot(struct timeline *t, const struct snapshot *s);

/* Until it was ready or had failed, else age_ms. */
uint64_t timeline_get_wait_ms(const struct timeline *t);

/* Bytes at that time, between two points by a straight line. */
uint64_t timeline_get_bytes(const struct timeline *t, uint64_t ms);

struct timeline_list {
	struct timeline *items; /* sorted by dataset, then by node */
	size_t n_items;
	uint64_t begun_ms, end_ms;	       /* Unix time of the first and of the last event */
	const struct snapshot_list *snapshots; /* lent */
};

/* Snapshots without a history are passed over. They must outlive the list. 0 or -ENOMEM. */
int timeline_list_init(struct timeline_list *l, const struct snapshot_list *snapshots);
void timeline_list_deinit(struct timeline_list *l);

/* The node whose memory for data is the fullest; NULL: nothing is known of any. */
const struct timeline *timeline_list_get_fullest(const struct timeline_list *l);

#define TIMELINE_MEMORY_TEXT 512

/* A sentence about it. False: nothing is known. */
bool timeline_list_get_memory(const struct timeline_list *l,
			      char text[static TIMELINE_MEMORY_TEXT]);

struct timeline_row {
	const struct timeline *timeline; /* the slowest of those that failed, or else of all */
	const char *first, *last;	 /* nodes */
	const char *slowest; /* node of this group that is the slowest of all; NULL: none */
	size_t n_nodes, n_failed;
};

#define TIMELINE_FAILED_TEXT 64

/* "", " failed", or of a group ", 2 of 31 failed". */
void timeline_row_failed_to_string(const struct timeline_row *row,
				   char buf[static TIMELINE_FAILED_TEXT]);

/* At most max_rows, but one for each dataset at least. The caller frees *rowsp. 0 or -ENOMEM. */
int timeline_list_get_rows(const struct timeline_list *l, size_t max_rows,
			   struct timeline_row **rowsp, size_t *n_rowsp);
