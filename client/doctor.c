/* What the checks of the doctor share: reporting a finding, reading a key of Slurm's settings. */
#include "client/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/json.h"
#include "client/output.h"
#include "common/util/error.h"

static void print_line(const struct doctor *d, enum doctor_level level, const char *text,
		       const char *hint)
{
	static const char *const words[] = { "ok  ", "warn", "FAIL" };
	char line[2 * ERROR_MAX_SIZE];

	snprintf(line, sizeof(line), "%s  %-14s %s", words[level], d->subject, text);
	output_lines(stdout, "", line);
	if (hint)
		output_lines(stdout, "                     -> ", hint);
}

static void put_json(const struct doctor *d, enum doctor_level level, const char *text,
		     const char *hint)
{
	static const char *const words[] = { "ok", "warn", "fail" };

	json_open_object(d->json, NULL);
	json_put_text(d->json, "subject", d->subject);
	json_put_text(d->json, "level", words[level]);
	json_put_text(d->json, "text", text);
	json_put_text(d->json, "hint", hint);
	json_close_object(d->json);
}

void doctor_tell(struct doctor *d, enum doctor_level level, const char *hint, const char *fmt, ...)
{
	char text[ERROR_MAX_SIZE];
	va_list ap;

	d->n_levels[level]++;
	if (d->quiet && level == DOCTOR_OK)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (d->json)
		put_json(d, level, text, hint);
	else
		print_line(d, level, text, hint);
}

bool doctor_get_key(const char *config, const char *key, char *buf, size_t size)
{
	const char *line = config, *eq;
	size_t n = strlen(key);

	for (; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		if (strncasecmp(line, key, n) || (line[n] != ' ' && line[n] != '='))
			continue;
		eq = strchr(line, '=');
		if (!eq)
			continue;
		eq += 1 + strspn(eq + 1, " ");
		n = strcspn(eq, "\n");
		if (n == 0 || (n == strlen("(null)") && strncmp(eq, "(null)", n) == 0))
			return false;
		snprintf(buf, size, "%.*s", (int)n, eq);
		return true;
	}
	return false;
}
