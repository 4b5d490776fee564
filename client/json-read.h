/*
 * json-read: reads JSON (RFC 8259) that anybody may have written, value by value, in the order of
 * the text. Nothing is stored: the caller reads the members that it knows and skips the rest.
 *
 * Texts are the bytes that json.h has written: a lone surrogate \udcXX is the byte XX.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_READ_MAX_DEPTH 16

/* A failure is permanent: after it, each function returns false. */
struct json_reader {
	const char *p, *end;
	unsigned depth;
	bool failed;
};

/* text is lent and must outlive r. */
void json_read_init(struct json_reader *r, const char *text, size_t size);

/*
 * For the members of the object, or the elements of the array, that comes next:
 *
 *	for (bool first = true; json_read_member(r, &first, key, sizeof(key));)
 *		read or skip one value
 *
 * A key that is longer than size - 1 becomes "". False: it has ended, or the text is malformed.
 */
bool json_read_member(struct json_reader *r, bool *firstp, char *key, size_t size);
bool json_read_element(struct json_reader *r, bool *firstp);

/* Reads a text that contains no NUL. The caller frees *textp. */
bool json_read_text(struct json_reader *r, char **textp);
/* Reads a whole number from 0 to 2^64 - 1. */
bool json_read_u64(struct json_reader *r, uint64_t *valuep);
/* Reads the next value if it is null. Returns whether it was null. */
bool json_read_null(struct json_reader *r);
/* Skips any value. */
bool json_skip(struct json_reader *r);

/* Returns whether everything has been read without a failure. */
bool json_read_end(struct json_reader *r);
