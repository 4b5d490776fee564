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
	const struct dataset *asked;	/* lent: the dataset before the copy became its source */
	struct mover_list movers;
	const struct mover_entry *mover; /* the mover that makes the copy; NULL: none */
	bool unknown;			 /* squeue gave no answer, so there may be a mover */
	struct mover_progress progress;
	bool whole;
	char *why; /* the reason why the copy is not complete; NULL if it is */
};

/* Looks for the mover and the copy. May take as long as squeue, plus half a minute. */
void moved_look(struct moved *m, const struct submit_copy *copy, const struct dataset *asked);
void moved_deinit(struct moved *m);

/* Write one sentence each into buf and return buf. */
char *moved_get_place(const struct moved *m, char *buf, size_t size);
char *moved_get_state(const struct moved *m, char *buf, size_t size);

/* Writes "mover": {...}. */
void moved_to_json(const struct moved *m, struct json *j);
