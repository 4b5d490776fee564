/*
 * break-even: the smallest number of epochs for which staging is faster. Pure.
 *
 * A node needs the time T to read the source once, and the time C to compute an epoch. A job of E
 * epochs takes E * max(T, C) if it reads from the source, because reading overlaps with computing.
 * It takes T + E * C if the data is staged first. Random reads, and reads of small files, are
 * slower than staging. So the result is an upper bound.
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
