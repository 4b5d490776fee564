/*
 * submit-copy: which datasets of a job have to be brought by a mover, and where their copies are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dataset/dataset.h"

struct conf;
struct conf_source;
struct error;

#define SUBMIT_KEY_SIZE 17

struct submit_copy {
	const struct conf_source *rule; /* lent by the configuration */
	const char *name;		/* of the dataset; lent by its list */
	char *source;			/* as the mover sees it */
	bool literal;			/* it is no pattern, whatever its name has */
	char *base;			/* <tier>/stage-data, with all copies of this user */
	char *dir;			/* this one's directory in it (daemon/mover/place.h) */
	char *path;			/* the copy; of a pattern, a pattern */
	char key[SUBMIT_KEY_SIZE];	/* hex; the same for the same source and directory */
	uint32_t job_id;		/* of the mover; 0: none is needed */
};

struct submit_copies {
	struct submit_copy *items;
	size_t n_items;
};

void submit_copies_deinit(struct submit_copies *c);

/*
 * Finds the items of list whose rule says VisibleOn=mover, and makes the copy their source; names
 * stay. What the rules refuse is left to sbatch, which says so. -EPERM where the site's
 * configuration does not go together.
 */
int submit_copies_find(struct submit_copies *c, const struct conf *conf, struct dataset_list *list,
		       struct error *err);

/* The directories with copies of this user's, as far as the configuration goes together. The caller
 * frees each, and the array. */
void submit_copies_get_bases(const struct conf *conf, char ***basesp, size_t *n_basesp);

/* Calls fn with a sentence for each [source] of which nothing can be moved. */
void submit_copies_check(const struct conf *conf, void (*fn)(void *arg, const char *text),
			 void *arg);
