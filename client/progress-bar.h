/*
 * progress-bar: shows the progress to people: a bar on a terminal, a line every 10 % elsewhere, and
 * a line now and then in a held job.
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

/* f is kept. */
int progress_new(struct progress **pp, FILE *f, enum progress_style style);

/* Several nodes take part, n_nodes as far as that is known: lines begin with the node's name. Of
 * more than SUMMARY_MAX_ROWS nodes, a line sums up a dataset on all of them. 0: this node alone. */
void progress_set_nodes(struct progress *p, size_t n_nodes);

/* Takes the bar off the terminal. */
void progress_free(struct progress *p);
DEFINE_FREEP(struct progress, progress_free)

/* Something has moved: draws, if it is time to (a bar ten times a second at most). */
void progress_update(struct progress *p, const struct snapshot_list *l);

/* One thing that is no dataset: bytes done, percent (-1: unknown); rate and ETA are made from the
 * time since progress_new(). */
void progress_set(struct progress *p, const char *label, uint64_t done, int percent);

/* Takes the bar away so that something else can be printed; the next update draws it anew. */
void progress_clear(struct progress *p);

/* "imagenet 41 % 2.1 GB/s ETA 1:10 (n3)", for the one that holds the others up, "and 2 more".
 * Writes a text to buf (256 bytes and more), "" when nothing is to be waited for.
 * Of many nodes: "imagenet 61 % 2.1 GB/s ETA 1:10, 300 ready, 700 staging, slowest n3". */
void progress_hold_text(const struct snapshot_list *l, char *buf, size_t size);
