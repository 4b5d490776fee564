/*
 * Only the last "*" of a component is tried again: what an earlier one could take, the later one
 * can, too. So it takes no longer than the two lengths multiplied, whatever the pattern.
 */
#include "daemon/engines/web/s3-match.h"

#include <string.h>

bool s3_is_pattern(const char *key)
{
	return strchr(key, '*') != NULL;
}

size_t s3_pattern_prefix(const char *pattern)
{
	return strcspn(pattern, "*");
}

bool s3_match(const char *pattern, const char *key)
{
	const char *begin = pattern, *star = NULL,
		   *from = NULL; /* position after the last "*", and the rest of the key there */

	for (;;) {
		if (*pattern == '*') {
			if ((pattern == begin || pattern[-1] == '/') &&
			    (*key == '.' || *key == '/' || !*key))
				return false;
			star = ++pattern;
			from = key;
		} else if (*pattern == *key) {
			if (!*key)
				return true;
			if (*key == '/')
				star = NULL;
			pattern++;
			key++;
		} else if (star && *from && *from != '/') {
			pattern = star;
			key = ++from;
		} else {
			return false;
		}
	}
}
