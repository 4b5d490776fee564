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
	char *source;			/* the source path that the mover reads */
	bool literal;			/* the source is one path, even if it contains pattern
					 * characters */
	bool follow;			/* links=follow */
	char *base;			/* <tier>/stage-data, the parent of all copies of this
					 * user */
	char *dir;			/* the directory of this copy in base
					 * (daemon/mover/place.h) */
	char *path;			/* path of the copy; for a pattern, a pattern in dir */
	char key[SUBMIT_KEY_SIZE];	/* hex; depends on source, base, literal and follow */
	uint32_t job_id;		/* of the mover; 0: no mover is needed */
};

struct submit_copies {
	struct submit_copy *items;
	size_t n_items;
};

void submit_copies_deinit(struct submit_copies *c);

/* Finds the items of list whose rule has VisibleOn=mover, and replaces their sources by the paths
 * of the copies. Names do not change. Items that the rules refuse are skipped, because sbatch
 * reports them. Returns 0, or -EPERM if rules of the configuration contradict each other. */
int submit_copies_find(struct submit_copies *c, const struct conf *conf, struct dataset_list *list,
		       struct error *err);

/* Gets the directories that can hold copies of this user. Rules with mistakes are skipped. The
 * caller frees each string and the array. */
void submit_copies_get_bases(const struct conf *conf, char ***basesp, size_t *n_basesp);

/* Calls fn with a sentence for each [source] from which nothing can be moved. */
void submit_copies_check(const struct conf *conf, void (*fn)(void *arg, const char *text),
			 void *arg);
