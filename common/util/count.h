/*
 * count: the singular or plural words that follow a number: "1 file is", "2 files are".
 */
#pragma once

/* Returns one if n is 1, otherwise many. */
static inline const char *count_word(unsigned long long n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}
