#include "common/util/mountinfo.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"

/* Decodes blank, tab, newline and backslash, which are written as \ooo. */
static void unescape(char *s)
{
	char *to = s;
	unsigned c;

	for (int n; *s; s += n) {
		n = 0;
		if (sscanf(s, "\\%3o%n", &c, &n) != 1 || n != 4) {
			c = (unsigned char)*s;
			n = 1;
		}
		*to++ = (char)c;
	}
	*to = '\0';
}

int mountinfo_parse(struct mountinfo *m, const char *line)
{
	const char *rest = strstr(line, " - ");

	m->options[0] = '\0';
	/* Fields are separated by blanks only. Names may contain \r, \v and \f, at which %s would
	 * stop. */
	if (!rest ||
	    sscanf(line, "%*[0-9] %*u %u:%u %*[^ ] %4095[^ ]", &m->major, &m->minor, m->target) !=
		    3 ||
	    sscanf(rest, " - %63[^ ] %*[^ ] %1023[^ \n]", m->type, m->options) < 1)
		return -EPROTO;
	unescape(m->target);
	return 0;
}

static bool has_option(const struct mountinfo *m, const char *option)
{
	const size_t n = strlen(option);

	for (const char *s = m->options; (s = strstr(s, option)); s += n)
		if ((s == m->options || s[-1] == ',') && (!s[n] || s[n] == ','))
			return true;
	return false;
}

int mountinfo_find(struct mountinfo *m, const char *target, const char *type, const char *option)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mountinfo next;
	int r = f ? -ENOENT : -errno;
	size_t size = 0;

	while (f && getline(&line, &size, f) > 0)
		if ((r || target) && mountinfo_parse(&next, line) == 0 &&
		    (!target || !strcmp(next.target, target)) &&
		    (!type || !strcmp(next.type, type)) && (!option || has_option(&next, option))) {
			*m = next;
			r = 0;
		}
	return f && !feof(f) ? -EIO : r;
}

static void match(struct mountinfo_query *q, const struct mountinfo *m)
{
	if (!*q->target && strcmp(m->type, q->type) == 0 &&
	    (!q->option || has_option(m, q->option)))
		memcpy(q->target, m->target, sizeof(q->target));
}

int mountinfo_find_first(struct mountinfo_query *queries, size_t n)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	struct mountinfo m;
	size_t size = 0;

	if (!f)
		return -errno;
	for (size_t i = 0; i < n; i++)
		queries[i].target[0] = '\0';
	while (getline(&line, &size, f) > 0) {
		if (mountinfo_parse(&m, line) < 0)
			continue;
		for (size_t i = 0; i < n; i++)
			match(&queries[i], &m);
	}
	return feof(f) ? 0 : -EIO;
}

int mountinfo_path_at(char path[static PATH_MAX], int dirfd, const char *name)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	n = readlink(link, path, PATH_MAX - 64);
	return n < 0 ? -errno : (int)n + snprintf(path + n, 64, "/%.60s", name);
}

int mountinfo_find_at(struct mountinfo *m, int dirfd, const char *name)
{
	char path[PATH_MAX];
	int r = mountinfo_path_at(path, dirfd, name);

	return r < 0 ? r : mountinfo_find(m, path, NULL, NULL);
}
