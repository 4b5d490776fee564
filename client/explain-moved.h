/*
 * explain-moved: the part of explain about a dataset that a mover copies: source, target and
 * progress.
 */
#pragma once

#include "client/mover-look.h"

struct dataset;
struct json;
struct submit_copy;

struct moved {
	const struct submit_copy *copy; /* lent */
	const struct dataset *asked;	/* lent: as it was before the copy took its place */
	struct mover_list movers;
	const struct mover_entry *mover; /* that is at it, NULL: none */
	struct mover_progress progress;
	bool whole;
	char *why; /* it is not */
};

/* May take as long as squeue and half a minute. */
void moved_look(struct moved *m, const struct submit_copy *copy, const struct dataset *asked);
void moved_deinit(struct moved *m);

/* A sentence each, into buf, which is returned. */
char *moved_get_place(const struct moved *m, char *buf, size_t size);
char *moved_get_state(const struct moved *m, char *buf, size_t size);

/* "mover": {...} */
void moved_to_json(const struct moved *m, struct json *j);
