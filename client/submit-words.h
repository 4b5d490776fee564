/*
 * submit-words: parses the arguments of `stagectl submit` and the lines of the script as sbatch
 * does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/util/cleanup.h"

struct error;

#define SUBMIT_MAX_VALUES 512

struct submit_values {
	char *values[SUBMIT_MAX_VALUES];
	size_t n_values;
	bool too_many;
};

/* Words that others may take the place of. */
#define SUBMIT_WORD_DATA 1
#define SUBMIT_WORD_DEPENDENCY 2 /* and --kill-on-invalid-dep */

struct submit_words {
	char **argv; /* lent: the words behind "submit" */
	size_t n_args;
	char *marks;	 /* of each word: a SUBMIT_WORD_* or 0 */
	bool has_script; /* or --wrap */
	bool only_asks;	 /* --help and the like: nothing is submitted */
	bool is_het, other_cluster, test_only;
	struct submit_values script, command_line; /* of --stage-data */
	char *dependency, *account;		   /* NULL: not given */
};

/* -EINVAL with the mistake in how stagectl was called or in the script that can't be read. */
int submit_words_read(struct submit_words *w, size_t n_args, char **argv, struct error *err);
void submit_words_deinit(struct submit_words *w);

/* The value of --stage-data as the plugin would merge it, with $STAGE_DATA. NULL: none. Caller
 * frees. */
int submit_words_merge(const struct submit_words *w, char **valuep, struct error *err);

/* What stands in the way of a mover for dataset name: -EINVAL with the sentence. */
int submit_words_check_mover(const struct submit_words *w, const char *name, struct error *err);

/* The words for sbatch: its name, first[], then those of no mark among without (marks added up).
 * Caller frees the array alone. NULL: no memory. */
char **submit_words_get_argv(const struct submit_words *w, char *const *first, size_t n_first,
			     int without);
