/*
 * strutil: makes texts, compares them with known words, and finds the known word that a user
 * probably meant.
 *
 * Only ASCII, and independent of the locale: "i" and "I" are the same letter in Turkish, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a and b are equal, ignoring case. */
bool strutil_equal(const char *a, const char *b);
/* Returns whether text begins with prefix, ignoring case. */
bool strutil_begin(const char *text, const char *prefix);

/* Returns the known word that differs from word by at most two typing mistakes (one for short
 * words), ignoring case; NULL: none. known ends with NULL. */
const char *strutil_nearest(const char *word, const char *const *known);

/* Returns the number of lines: one more than the newlines. */
size_t strutil_count_lines(const char *text);

/* Returns the text that printf() would print; NULL if there is no memory. The caller frees. */
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
