/*
 * spread-note: the small files that go to all nodes before and after the one that is passed on: what
 * it is, and whether it has come whole. One line; a text that has no end yet is not there yet.
 *
 *   stage-spread 1 KIND SIZE SECONDS.NANOSECONDS [REASON]\n
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum spread_kind {
	SPREAD_GO,    /* the file follows */
	SPREAD_WHOLE, /* it has come, on every node */
	SPREAD_NOT,   /* it won't: reason says why */
};

#define SPREAD_REASON_SIZE 200
#define SPREAD_NOTE_SIZE 512

/* Size and time of its content: each node compares them with what it sees at the source. */
struct spread_note {
	enum spread_kind kind;
	uint64_t size;
	int64_t mtime_s;
	uint32_t mtime_ns;
	char reason[SPREAD_REASON_SIZE];
};

/* Control bytes of the reason become blanks. */
void spread_note_to_string(const struct spread_note *note, char text[static SPREAD_NOTE_SIZE]);

enum {
	SPREAD_NOTE_E_SUCCESS,
	SPREAD_NOTE_E_UNFINISHED, /* no end of the line: more may come */
	SPREAD_NOTE_E_MALFORMED,
};
int spread_note_from_data(struct spread_note *note, const void *data, size_t size);
