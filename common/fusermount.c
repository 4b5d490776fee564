/*
 * The mount table is asked first and last: the helper's exit status does not tell "was not mounted"
 * from "may not". Its own words go to stderr, the log of whoever runs us.
 */
#include "common/fusermount.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

/* mountinfo writes blank, tab, newline and backslash as \ooo. */
static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

static void unescape_octal(char *s)
{
	char *o = s;

	for (; *s; s++) {
		if (s[0] == '\\' && is_octal(s[1]) && is_octal(s[2]) && is_octal(s[3])) {
			*o++ = (char)((s[1] & 7) << 6 | (s[2] & 7) << 3 | (s[3] & 7));
			s += 3;
		} else {
			*o++ = *s;
		}
	}
	*o = '\0';
}

static bool is_mounted(const char *target)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/mountinfo", "re");
	_cleanup_(freep) char *line = NULL;
	char *save, *field;
	size_t size = 0;
	int i;

	while (f && getline(&line, &size, f) > 0) {
		field = strtok_r(line, " ", &save);
		for (i = 0; field && i < 4; i++)
			field = strtok_r(NULL, " ", &save);
		if (!field)
			continue;
		unescape_octal(field);
		if (!strcmp(field, target))
			return true;
	}
	return f == NULL; /* can't know: let the helper say */
}

int fusermount_unmount(const char *target, struct error *err)
{
	const char *argv[] = { "fusermount3", "-u", "-z", "--", target, NULL };
	pid_t pid;
	int r, status = 0;

	if (!is_mounted(target))
		return 0;
	r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (r)
		return error_errno(err, r, "run fusermount3");
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return error_errno(err, errno, "wait for fusermount3");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return is_mounted(target) ? error_set(err, EBUSY, "fusermount3 -u %s failed", target) : 0;
}
