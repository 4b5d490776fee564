/*
 * break-even: from how many epochs on staging pays. Pure.
 *
 * One reading of the source takes a node T, computing an epoch C. A job of E epochs takes E *
 * max(T, C) when it reads straight from the source, where reading hides behind computing, and T + E
 * * C when it is staged first. What is read at random or in small files comes slower than it is
 * staged, so this is the most epochs that it takes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct kv;

enum break_even_known {
	BREAK_EVEN_NOTHING,  /* of T */
	BREAK_EVEN_RATE,     /* from bytes a second */
	BREAK_EVEN_MEASURED, /* so long did this job stage */
};

struct break_even {
	enum break_even_known known;
	uint64_t bytes, read_ms;
	uint64_t epoch_ms; /* 0: not said */
	uint64_t nodes;
};

/* What the user says of his job and of the source; 0: nothing. */
struct break_even_asked {
	uint64_t rate; /* bytes a second to a node */
	uint64_t epoch_ms, nodes;
};

/* facts: of the worker, or of a dataset of the job. max_rate: of the site's rule. False: it is not
 * read as a whole first, or could not be read in place. */
bool break_even_init(struct break_even *w, const struct kv *facts, const char *source,
		     const struct break_even_asked *asked, uint64_t max_rate);

/* The fewest epochs with which staging is faster; 0: none, or T is not known. */
uint64_t break_even_get_epochs(const struct break_even *w);

/* Lines of text. */
void break_even_get_text(const struct break_even *w, char *buf, size_t size);

/* An object of the name "worth". */
void break_even_to_json(const struct break_even *w, struct json *j);
