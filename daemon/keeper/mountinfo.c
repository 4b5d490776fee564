#include "daemon/keeper/mountinfo.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"

/* Blank, tab, newline and backslash stand as \ooo. */
static void unescape(char *s)
{
	char *to = s;
	unsigned c;

	while (*s) {
		if (s[0] == '\\' && sscanf(s + 1, "%3o", &c) == 1 && strspn(s + 1, "01234567") >= 3) {
			*to++ = (char)c;
			s += 4;
		} else {
			*to++ = *s++;
		}
	}
	*to = '\0';
}

int mountinfo_parse(struct mountinfo *m, const char *line)
{
	const char *rest = strstr(line, " - ");
	unsigned long long id;

	if (!rest || sscanf(line, "%llu %*u %u:%u %*s %4095s", &id, &m->major, &m->minor,
			    m->target) != 4)
		return -EPROTO;
	m->options[0] = '\0';
	if (sscanf(rest, " - %63s %*s %1023s", m->type, m->options) < 1)
		return -EPROTO;
	m->mnt_id = id;
	unescape(m->target);
	return 0;
}

int mountinfo_next(FILE *f, struct mountinfo *m)
{
	_cleanup_(freep) char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, f) > 0)
		if (mountinfo_parse(m, line) == 0)
			return 1;
	return 0;
}

int mountinfo_find(struct mountinfo *m, uint64_t mnt_id)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f && mountinfo_next(f, m))
		if (m->mnt_id == mnt_id)
			return 0;
	return -ENOENT;
}
