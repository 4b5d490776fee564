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

/* Kinds of words that can be replaced. */
#define SUBMIT_WORD_DATA 1
#define SUBMIT_WORD_DEPENDENCY 2 /* --dependency and --kill-on-invalid-dep */

struct submit_words {
	char **argv; /* lent: the words after "submit" */
	size_t n_args;
	char *marks;	 /* one per word: a SUBMIT_WORD_* or 0 */
	bool has_script; /* a script or --wrap is given */
	bool only_asks;	 /* --help and similar options: nothing is submitted */
	bool is_het, other_cluster, test_only;
	struct submit_values script, command_line; /* values of --stage-data */
	char *dependency, *account;		   /* NULL: not given */
};

/* Returns 0, or -EINVAL with err for a mistake in the arguments, or if the script cannot be
 * read. */
int submit_words_read(struct submit_words *w, size_t n_args, char **argv, struct error *err);
void submit_words_deinit(struct submit_words *w);

/* Merges the values of --stage-data and $STAGE_DATA as the plugin does. *valuep: NULL if there are
 * none; the caller frees it. */
int submit_words_merge(const struct submit_words *w, char **valuep, struct error *err);

/* Returns -EINVAL with a sentence if a mover cannot be used for dataset `name`. */
int submit_words_check_mover(const struct submit_words *w, const char *name, struct error *err);

/* Makes the command line of sbatch: its name, the words in first[], and the words that have none of
 * the marks in `without` (marks added up). The caller frees only the array. NULL: no memory. */
char **submit_words_get_argv(const struct submit_words *w, char *const *first, size_t n_first,
			     int without);
