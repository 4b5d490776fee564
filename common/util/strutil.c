/*
 * The distance counts letters put in, left out, changed and swapped with their neighbour (optimal
 * string alignment), over three rows of a table as wide as the longest known word.
 */
#include "common/util/strutil.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX 40 /* longer words are not misspelt known words */

bool strutil_equal(const char *a, const char *b)
{
	while (*a && strutil_lower(*a) == strutil_lower(*b)) {
		a++;
		b++;
	}
	return strutil_lower(*a) == strutil_lower(*b);
}

bool strutil_begin(const char *text, const char *prefix)
{
	while (*prefix && strutil_lower(*text) == strutil_lower(*prefix)) {
		text++;
		prefix++;
	}
	return *prefix == '\0';
}

size_t strutil_count_lines(const char *text)
{
	size_t n = 1;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
	if (b < a)
		a = b;
	return c < a ? c : a;
}

static unsigned distance(const char *a, size_t n, const char *b, size_t m)
{
	unsigned rows[3][WORDS_MAX + 1], *before = rows[0], *last = rows[1], *row = rows[2],
					 *free_row;

	for (size_t j = 0; j <= m; j++)
		last[j] = before[j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			char x = strutil_lower(a[i - 1]), y = strutil_lower(b[j - 1]);

			row[j] = least(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y));
			if (i > 1 && j > 1 && x == strutil_lower(b[j - 2]) &&
			    y == strutil_lower(a[i - 2]) && before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		free_row = before;
		before = last;
		last = row;
		row = free_row;
	}
	return last[m];
}

const char *strutil_nearest(const char *word, const char *const *known)
{
	size_t n = strlen(word), m;
	unsigned best = n <= 4 ? 2 : 3, d;
	const char *found = NULL;

	if (n == 0 || n > WORDS_MAX)
		return NULL;
	for (; *known; known++) {
		m = strlen(*known);
		if (m == 0 || m > WORDS_MAX || (m > n ? m - n : n - m) >= best)
			continue; /* the difference in length is a lower limit for the distance */
		d = distance(word, n, *known, m);
		if (d < best && d < n) {
			best = d;
			found = *known;
		}
	}
	return found;
}

char *strutil_printf(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}
