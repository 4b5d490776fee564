/*
 * To find the end of the options, we must know which of them take a value. This list has those that
 * do not, because it is shorter.
 */
#include "common/slurm/sbatch-words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cleanup.h"

#define MAGIC "#SBATCH"

static const char blanks[] = " \t\r\v\f";
static const char flags_short[] = "EHhIkKlOQsuvVWXZ";

static const char *const flags_long[] = {
	"bell",		 "contiguous",	      "debugger-test", "disable-status", "exact",
	"exclusive",	 "external",	      "get-user-env",  "help",		 "hold",
	"ignore-pbs",	 "immediate",	      "interactive",   "kill-command",	 "kill-on-bad-exit",
	"label",	 "multi-prog",	      "nice",	       "no-allocate",	 "no-bell",
	"no-kill",	 "no-requeue",	      "no-shell",      "overcommit",	 "overlap",
	"oversubscribe", "parsable",	      "preserve-env",  "propagate",	 "pty",
	"quiet",	 "quit-on-interrupt", "reboot",	       "requeue",	 "resv-ports",
	"share",	 "spread-job",	      "test-only",     "unbuffered",	 "usage",
	"use-min-nodes", "verbose",	      "version",       "wait",		 "wait-all-nodes",
	"whole",
};

static bool long_takes_value(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags_long); i++)
		if (!strcmp(name, flags_long[i]))
			return false;
	return true;
}

struct reader {
	sbatch_words_fn *fn;
	void *arg;
};

static void sbatch_words_tell(const struct reader *r, const char *name, const char *value,
			      const char *word, bool takes_next)
{
	const struct sbatch_option o = { name, value, word, takes_next };

	r->fn(r->arg, &o);
}

/* Handles a long option. word is the text after the dashes of start; next is the next word, or
 * NULL. Returns whether next was the option's value. */
static bool take_long(const struct reader *r, const char *start, const char *next)
{
	const char *word = start + 2, *eq = strchr(word, '='), *value = NULL;
	size_t n = eq ? (size_t)(eq - word) : strlen(word);
	bool takes_next;
	char name[64];

	if (n >= sizeof(name))
		return false;
	memcpy(name, word, n);
	name[n] = '\0';
	takes_next = !eq && next && long_takes_value(name);
	if (eq)
		value = eq + 1;
	else if (takes_next)
		value = next;
	sbatch_words_tell(r, name, value, start, takes_next);
	return takes_next;
}

static bool take_short(const struct reader *r, const char *start, const char *next)
{
	char name[2] = "";

	for (const char *word = start + 1; *word; word++) {
		name[0] = *word;
		if (strchr(flags_short, *word)) {
			sbatch_words_tell(r, name, NULL, start, false);
			continue;
		}
		sbatch_words_tell(r, name, word[1] ? word + 1 : next, start, !word[1] && next);
		return !word[1] && next;
	}
	return false;
}

const char *sbatch_words_read(const char *words, size_t size, sbatch_words_fn *fn, void *arg)
{
	const struct reader r = { fn, arg };
	const char *p, *next, *end = words + size;
	bool taken;

	if (!size || end[-1])
		return NULL;
	for (p = words + strlen(words) + 1; p < end; p = next) {
		next = p + strlen(p) + 1;
		if (p[0] != '-' || !p[1])
			return p;
		if (!strcmp(p, "--"))
			return next < end ? next : NULL;
		taken = p[1] == '-' ? take_long(&r, p, next < end ? next : NULL)
				    : take_short(&r, p, next < end ? next : NULL);
		if (taken)
			next += strlen(next) + 1;
	}
	return NULL;
}

/* Splits a line into words as sbatch does, as far as needed here: blanks, quotes and '#'. */
static size_t split_line(const char *line, char *words)
{
	size_t n = 0;
	char quote = '\0';

	words[n++] = '\0'; /* stands for the program's name */
	for (; *line && *line != '\n'; line++) {
		if (quote ? *line == quote : *line == '"' || *line == '\'')
			quote = quote ? '\0' : *line;
		else if (!quote && *line == '#')
			break;
		else if (quote || !strchr(blanks, *line))
			words[n++] = *line;
		else if (words[n - 1])
			words[n++] = '\0';
	}
	if (words[n - 1])
		words[n++] = '\0';
	return n;
}

/* Returns whether a line is empty or a comment. sbatch stops reading at any other line. */
static bool is_passed_over(const char *line)
{
	line += strspn(line, blanks);
	return !*line || *line == '\n' || *line == '#';
}

static const char *next_line(const char *text)
{
	const char *end = strchr(text, '\n');

	return end ? end + 1 : NULL;
}

int sbatch_words_read_script(const char *text, sbatch_words_fn *fn, void *arg)
{
	for (; text && *text; text = next_line(text)) {
		if (!strncmp(text, MAGIC, strlen(MAGIC))) {
			_cleanup_(freep) char *words = malloc(strcspn(text, "\n") + 3);

			if (!words)
				return -ENOMEM;
			sbatch_words_read(words, split_line(text + strlen(MAGIC), words), fn, arg);
		} else if (!is_passed_over(text)) {
			break;
		}
	}
	return 0;
}
