/*
 * broadcast-note: the small files that are sent to all nodes before and after the data. They
 * describe the data, and say whether it is complete. A note is one line; a text without a line end
 * is not complete yet.
 *
 *   stage-broadcast 1 KIND SIZE SECONDS.NANOSECONDS [REASON]\n
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum broadcast_kind {
	BROADCAST_GO,	 /* the data follows */
	BROADCAST_WHOLE, /* the data is complete on every node */
	BROADCAST_NOT,	 /* the data will not come; reason has the cause */
};

#define BROADCAST_REASON_SIZE 200
#define BROADCAST_NOTE_SIZE 512

/* Size and time of the data; each node compares them with what it sees at the source. */
struct broadcast_note {
	enum broadcast_kind kind;
	uint64_t size;
	int64_t mtime_s;
	uint32_t mtime_ns;
	char reason[BROADCAST_REASON_SIZE];
};

/* Writes the note as text. Control bytes in the reason become blanks. */
void broadcast_note_to_string(const struct broadcast_note *note,
			      char text[static BROADCAST_NOTE_SIZE]);

enum {
	BROADCAST_NOTE_E_SUCCESS,
	BROADCAST_NOTE_E_UNFINISHED, /* the line has no end yet: try again later */
	BROADCAST_NOTE_E_MALFORMED,
};
int broadcast_note_from_data(struct broadcast_note *note, const void *data, size_t size);
