/*
 * strutil: making texts, comparing them with known words, and guessing which of these somebody
 * meant.
 *
 * ASCII only and without locale: "i" and "I" are the same letter in Turkish too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Equal without regard to case? */
bool strutil_equal(const char *a, const char *b);
/* Does text begin with prefix, without regard to case? */
bool strutil_begin(const char *text, const char *prefix);

/*
 * The known word that is at most two slips of the keyboard away from word, case not counted
 * (for short words one); NULL if none is. known ends with NULL.
 */
const char *strutil_nearest(const char *word, const char *const *known);

/* The text that printf() would print, or NULL without memory. Caller frees. */
char *strutil_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline bool strutil_is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool strutil_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline char strutil_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static inline char strutil_upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 32) : c;
}
