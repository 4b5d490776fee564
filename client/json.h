/*
 * json: writes JSON (RFC 8259) on one line. json-read.h reads it.
 *
 * Texts are bytes: what is no valid UTF-8 becomes a lone surrogate \udcXX, the convention of
 * Python's "surrogateescape", so that os.fsencode() gives the exact path back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 15

struct json {
	FILE *f;
	unsigned depth;
	bool filled[JSON_MAX_DEPTH + 1]; /* [depth]: the container at that depth has a member or
					  * element */
};

void json_init(struct json *j, FILE *f);

/* key: NULL for an element of an array and at the top level. The depth is at most JSON_MAX_DEPTH,
 * which the caller's own structure guarantees (an assertion). */
void json_open_object(struct json *j, const char *key);
void json_close_object(struct json *j);
void json_open_array(struct json *j, const char *key);
void json_close_array(struct json *j);

/* A NULL value is written as null. */
void json_put_text(struct json *j, const char *key, const char *value);
void json_put_u64(struct json *j, const char *key, uint64_t value);
void json_put_bool(struct json *j, const char *key, bool value);
void json_put_null(struct json *j, const char *key);
/* Writes null for 0. For totals and times that are not known yet. */
void json_put_known(struct json *j, const char *key, uint64_t value);
