#include "daemon/engines/copy/rule-patterns.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

#define RULES_MAX_LINKS 40

/* Returns the bytes of the pattern before the first component with a wildcard, without the last
 * "/". */
static size_t literal_size(const char *pattern)
{
	size_t n = strcspn(pattern, "*?[");

	if (!pattern[n])
		return n;
	while (n > 0 && pattern[n] != '/')
		n--;
	return n;
}

/* Replaces path[0..at), which is a link, by its target. Returns false if the link is not root's, or
 * the result is too long. */
static bool follow(char *path, size_t at)
{
	char link[PATH_MAX], joined[2 * PATH_MAX], head[PATH_MAX];
	struct stat st;
	ssize_t n;
	size_t dir;

	snprintf(head, sizeof(head), "%.*s", (int)at, path);
	if (lstat(head, &st) < 0 || st.st_uid != 0)
		return false;
	n = readlink(head, link, sizeof(link) - 1);
	if (n <= 0)
		return false;
	link[n] = '\0';
	dir = link[0] == '/' ? 0 : (size_t)(strrchr(head, '/') - head) + 1;
	snprintf(joined, sizeof(joined), "%.*s%s%s", (int)dir, head, link, path + at);
	/* ".." can be removed as text, because the part before it has no links any more */
	return path_normalize(joined, path, PATH_MAX) == 0;
}

/* Resolves path in place. Returns false if a link in it is not root's, or if it does not exist. */
static bool resolve_trusted(char path[static PATH_MAX])
{
	struct stat st;
	char head[PATH_MAX];
	int links = 0;
	size_t at = 0;

	while (path[at]) {
		at += 1 + strcspn(path + at + 1, "/");
		snprintf(head, sizeof(head), "%.*s", (int)at, path);
		if (lstat(head, &st) < 0)
			return false;
		if (!S_ISLNK(st.st_mode))
			continue;
		if (++links > RULES_MAX_LINKS || !follow(path, at))
			return false;
		at = 0;
	}
	return true;
}

static void rule_patterns_freep(char ***rulesp)
{
	rule_patterns_free(*rulesp);
}

/* Returns the pattern with its literal part resolved; NULL: it is the same, or cannot be
 * resolved. */
static char *resolve_pattern(const char *pattern)
{
	char base[PATH_MAX];
	size_t n = literal_size(pattern);

	if (n == 0 || n >= sizeof(base))
		return NULL;
	memcpy(base, pattern, n);
	base[n] = '\0';
	if (!resolve_trusted(base) || !strncmp(base, pattern, n + 1))
		return NULL;
	if (strlen(base) == n && !memcmp(base, pattern, n))
		return NULL;
	return strutil_printf("%s%s", base, pattern + n);
}

int rule_patterns_new(char ***rulesp, const char *match, struct error *err)
{
	/* space for each line, its resolved form, and the final NULL */
	_cleanup_(rule_patterns_freep) char **rules = calloc(2 * strutil_count_lines(match) + 1,
							     sizeof(*rules));
	_cleanup_(freep) char *copy = strdup(match);
	char *save, *line;
	size_t n = 0;

	if (!rules || !copy)
		return error_set(err, ENOMEM, "out of memory");
	for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (line[0] != '/')
			continue;
		rules[n] = strdup(line);
		if (!rules[n++])
			return error_set(err, ENOMEM, "out of memory");
		rules[n] = resolve_pattern(line);
		n += rules[n] != NULL;
	}
	*rulesp = steal_ptr(rules);
	return 0;
}

void rule_patterns_free(char **rules)
{
	for (size_t i = 0; rules && rules[i]; i++)
		free(rules[i]);
	free(rules);
}

bool rule_patterns_allow(char *const *rules, const char *real)
{
	for (size_t i = 0; rules[i]; i++) {
		if (path_match(rules[i], real))
			return true;
	}
	return false;
}
