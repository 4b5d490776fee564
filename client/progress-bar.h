/*
 * progress-bar: shows the progress to people: a bar on a terminal, elsewhere a line every 10 % and
 * at least one a minute, and a line now and then in a held job.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/util/cleanup.h"

struct progress;
struct snapshot;
struct snapshot_list;

enum progress_style {
	PROGRESS_NONE,
	PROGRESS_AUTO, /* BAR if f is a terminal, else LINES */
	PROGRESS_BAR,
	PROGRESS_LINES,
};

/* f stays the caller's. */
int progress_new(struct progress **pp, FILE *f, enum progress_style style);

/* Announces that several nodes take part: n_nodes if the number is known, 0 for this node only.
 * Lines then begin with the node's name. With more than SUMMARY_MAX_ROWS nodes, one line sums up a
 * dataset on all nodes. */
void progress_set_nodes(struct progress *p, size_t n_nodes);

/* Removes the bar from the terminal. */
void progress_free(struct progress *p);
DEFINE_FREEP(struct progress, progress_free)

/* Called after each change. Draws, if enough time has passed (a bar at most ten times a second).
 * changed: the item of the list that has changed; NULL: any of them. */
void progress_update(struct progress *p, const struct snapshot_list *l,
		     const struct snapshot *changed);

/* Called after the last change. Prints the lines that were not due before. */
void progress_end(struct progress *p, const struct snapshot_list *l);

#define PROGRESS_TICK_MS 5000

/* Called PROGRESS_TICK_MS after the start, and then after each returned time; 0: no more calls.
 * Prints a line if there was none so far, or none for a minute. Otherwise, waiting for a slow
 * source would look like a program that hangs. */
uint64_t progress_tick(struct progress *p, const struct snapshot_list *l);

/* Shows the progress of one task that is not a dataset: bytes done and percent (-1: unknown). The
 * rate and the ETA are computed from the time since progress_new(). */
void progress_set(struct progress *p, const char *label, uint64_t done, int percent);

/* Removes the bar so that something else can be printed; the next update draws the bar again. */
void progress_clear(struct progress *p);

/* Writes "imagenet 41 % 2.1 GB/s ETA 1:10 (n3)" about the slowest dataset, and "and 2 more" about
 * the others, or "" if no dataset is unfinished. With many nodes: "imagenet 61 % 2.1 GB/s ETA 1:10,
 * 300 ready, 700 staging, slowest n3". buf: at least 256 bytes. */
void progress_hold_text(const struct snapshot_list *l, char *buf, size_t size);
