/*
 * break-even: from how many epochs on staging pays. Pure.
 *
 * One reading of the source takes a node T, computing an epoch C. A job of E epochs takes E *
 * max(T, C) when it reads straight from the source, where reading overlaps with computing, and T +
 * E * C when it is staged first. What is read at random or in small files comes slower than it is
 * staged, so this is the most epochs that it takes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json;
struct kv;

enum break_even_known {
	BREAK_EVEN_NOTHING,  /* T is not known */
	BREAK_EVEN_RATE,     /* T is computed from a rate in bytes per second */
	BREAK_EVEN_MEASURED, /* T is the time that this job needed to stage the data */
};

struct break_even {
	enum break_even_known known;
	uint64_t bytes, read_ms;
	uint64_t epoch_ms; /* C; 0: not known */
	uint64_t nodes;
};

/* The user's statements about the job and the source; 0: not given. */
struct break_even_asked {
	uint64_t rate; /* bytes per second to one node */
	uint64_t epoch_ms, nodes;
};

/* facts: from the worker, or of a dataset of the job. max_rate: from the site's rule. Returns false
 * if staging does not read the whole source first, or if the source cannot be read in place. */
bool break_even_init(struct break_even *w, const struct kv *facts, const char *source,
		     const struct break_even_asked *asked, uint64_t max_rate);

/* Returns the smallest number of epochs with which staging is faster; 0 if there is none, or if T
 * is not known. */
uint64_t break_even_get_epochs(const struct break_even *w);

/* Writes lines of text. */
void break_even_get_text(const struct break_even *w, char *buf, size_t size);

/* Writes an object with the name "worth". */
void break_even_to_json(const struct break_even *w, struct json *j);
