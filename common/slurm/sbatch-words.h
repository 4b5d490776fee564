/*
 * sbatch-words: parses the command lines of sbatch, srun and salloc, and #SBATCH lines, as far as
 * this is needed to find an option or the script.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* An option; all strings are lent for the duration of the call. */
struct sbatch_option {
	const char *name;  /* as written, without dashes */
	const char *value; /* NULL: none */
	const char *word;  /* the word that contains the option */
	bool takes_next;   /* the value is the next word */
};

typedef void sbatch_words_fn(void *arg, const struct sbatch_option *o);

/* Calls fn for each option in words, which are NUL-separated and NUL-terminated, as in
 * /proc/PID/cmdline. The first word is the program's name and is skipped. Returns the first word
 * that is not an option (a pointer into words), or NULL. */
const char *sbatch_words_read(const char *words, size_t size, sbatch_words_fn *fn, void *arg);

/* Does the same for the #SBATCH lines at the top of a script. Returns 0 or -ENOMEM. */
int sbatch_words_read_script(const char *text, sbatch_words_fn *fn, void *arg);
