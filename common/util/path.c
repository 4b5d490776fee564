#include "common/util/path.h"
#include "common/util/strutil.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

int path_normalize(const char *path, char *buf, size_t size)
{
	size_t n = 0, len;

	if (*path != '/' || size < 2)
		return *path != '/' ? -EINVAL : -ENAMETOOLONG;
	while (*path) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0)
			break;
		if (len == 2 && !memcmp(path, "..", 2)) {
			if (n == 0)
				return -EINVAL;
			while (buf[--n] != '/')
				;
		} else if (len != 1 || *path != '.') {
			if (n + 1 + len + 1 > size)
				return -ENAMETOOLONG;
			buf[n++] = '/';
			memmove(buf + n, path, len);
			n += len;
		}
		path += len;
	}
	if (n == 0)
		buf[n++] = '/';
	buf[n] = '\0';
	return 0;
}

bool path_is_beneath(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1 && *dir == '/')
		return *path == '/';
	return !strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}

char *path_join(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	if (*path == '/')
		return strdup(path);
	return strutil_printf("%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", path);
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool path_is_pattern(const char *path)
{
	return path[strcspn(path, "*?[{")] != '\0';
}

size_t path_get_top(const char *pattern)
{
	size_t n = strcspn(pattern, "*?[{");

	if (!pattern[n])
		return n;
	while (n > 0 && pattern[n] != '/')
		n--;
	return n;
}

/* Matches one component. fnmatch's FNM_PERIOD is off, because rules cover dot files, too. */
static bool component_match(const char *pattern, size_t n, const char *path, size_t m)
{
	char a[256], b[256];

	if (n >= sizeof(a) || m >= sizeof(b))
		return false;
	memcpy(a, pattern, n);
	a[n] = '\0';
	memcpy(b, path, m);
	b[m] = '\0';
	return fnmatch(a, b, 0) == 0;
}

/* Matches components. After a mismatch, only the last "**" has to be extended: the components
 * between two "**" use their first match, which leaves most for the rest. So the time is bounded by
 * the product of the two lengths. */
static bool match_from(const char *pattern, const char *path)
{
	const char *again = NULL,
		   *taken = NULL; /* the text after the last "**", and the path after the components
				   * that it matched */
	size_t n, m;

	for (;;) {
		pattern += strspn(pattern, "/");
		path += strspn(path, "/");
		n = strcspn(pattern, "/");
		m = strcspn(path, "/");
		if (n == 2 && !memcmp(pattern, "**", 2)) {
			pattern += n;
			if (!pattern[strspn(pattern, "/")])
				return true;
			again = pattern;
			taken = path;
			continue;
		}
		if (n == 0 && m == 0)
			return true;
		if (m > 0 && component_match(pattern, n, path, m)) {
			pattern += n;
			path += m;
			continue;
		}
		if (!again || !*taken)
			return false;
		taken += strcspn(taken, "/");
		taken += strspn(taken, "/");
		pattern = again;
		path = taken;
	}
}

static size_t count_components(const char *path)
{
	size_t n = 0;

	for (path += strspn(path, "/"); *path; path += strspn(path, "/")) {
		path += strcspn(path, "/");
		n++;
	}
	return n;
}

bool path_leads_out(const char *dir, const char *link)
{
	size_t depth = count_components(dir), n;

	if (*link == '/')
		return true;
	for (; *link; link += n + strspn(link + n, "/")) {
		n = strcspn(link, "/");
		if (n == 1 && link[0] == '.')
			continue;
		if (n != 2 || memcmp(link, "..", 2) != 0)
			depth++;
		else if (depth-- == 0)
			return true;
	}
	return false;
}

bool path_match(const char *pattern, const char *path)
{
	return *pattern == '/' && *path == '/' && match_from(pattern, path);
}
