/*
 * A sentence is built in a buffer and then escaped as a whole, with its arguments. So escaping is
 * done in one place and cannot be forgotten. A sentence that is longer than the buffer is cut.
 */
#include "client/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/file-size-limit.h"
#include "common/util/parse.h"

#define LINE_MAX_SIZE (4 * ERROR_MAX_SIZE)
#define MAX_NAMES 8

const char *output_get_step_node(void)
{
	const char *n_nodes = getenv("SLURM_STEP_NUM_NODES"), *node = getenv("SLURMD_NODENAME");

	return n_nodes && atoi(n_nodes) > 1 && node ? node : "";
}

static void output_say(const char *prefix, const char *fmt, va_list ap)
{
	char text[LINE_MAX_SIZE], line[LINE_MAX_SIZE];
	const char *node = output_get_step_node();

	vsnprintf(text, sizeof(text), fmt, ap);
	text_escape(line, sizeof(line), text, strlen(text));
	fprintf(stderr, "%s: %s%s%s\n", prefix, node, *node ? ": " : "", line);
}

void output_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	output_say("stagectl", fmt, ap);
	va_end(ap);
}

void output_held(const char *fmt, ...)
{
	char text[LINE_MAX_SIZE], line[LINE_MAX_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_escape(line, sizeof(line), text, strlen(text));
	fprintf(stderr, "stage-data: %s\n", line);
}

int output_fail(const struct error *err)
{
	struct error explained = *err;

	file_size_limit_explain(&explained);
	output_error("%s", explained.text[0] ? explained.text : "failed");
	return (int)error_to_exit(err);
}

int output_usage(const char *verb, const char *fmt, ...)
{
	char prefix[64];
	va_list ap;

	snprintf(prefix, sizeof(prefix), "stagectl %s", verb);
	va_start(ap, fmt);
	output_say(verb[0] ? prefix : "stagectl", fmt, ap);
	va_end(ap);
	if (verb[0])
		fprintf(stderr, "'stagectl help %s' shows what it takes.\n", verb);
	else
		fprintf(stderr, "'stagectl --help' lists the commands.\n");
	return STAGE_EXIT_USAGE;
}

/* Does the same as text_escape(), in new memory. The caller frees. */
static char *escape_dup(const char *text, size_t size)
{
	char *buf = malloc(4 * size + 8);

	if (buf)
		text_escape(buf, 4 * size + 8, text, size);
	return buf;
}

void output_text(FILE *f, const char *text)
{
	_cleanup_(freep) char *escaped = NULL;

	if (!isatty(fileno(f))) {
		fputs(text, f);
		return;
	}
	escaped = escape_dup(text, strlen(text));
	fputs(escaped ? escaped : "?", f);
}

void output_line(FILE *f, const char *text)
{
	_cleanup_(freep) char *escaped = escape_dup(text, strlen(text));

	fprintf(f, "%s\n", escaped ? escaped : "?");
}

void output_lines(FILE *f, const char *indent, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		_cleanup_(freep) char *escaped = escape_dup(text, n);

		fprintf(f, "%s%s\n", indent, escaped ? escaped : "?");
		text += n + (text[n] == '\n');
	}
}

int output_check(struct error *err)
{
	if (!ferror(stdout))
		return 0;
	clearerr(stdout); /* main() would print a second error */
	return error_set(err, EIO, "output was lost: its reader has ended, or its disk is full");
}

static int compare_names(const void *a, const void *b)
{
	return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

void output_names(FILE *f, const char **names, size_t n)
{
	qsort(names, n, sizeof(*names), compare_names);
	for (size_t i = 0; i < n && i < MAX_NAMES; i++)
		fprintf(f, "%s%s", i > 0 ? ", " : "", names[i]);
	if (n > MAX_NAMES)
		fprintf(f, " and %zu more", n - MAX_NAMES);
}

bool output_has_cursor(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && term[0] && strcmp(term, "dumb");
}

size_t output_get_height(void)
{
	struct winsize ws;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) < 0 || ws.ws_row == 0)
		return 24;
	return ws.ws_row;
}

bool output_has_colour(void)
{
	const char *none = getenv("NO_COLOR");

	return output_has_cursor() && !(none && none[0]);
}

char *rate_to_string(uint64_t bytes_per_second, char buf[static OUTPUT_RATE_TEXT])
{
	static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s" };
	double v = (double)bytes_per_second;
	size_t u = 0;

	while (v >= 999.95 && u < ARRAY_SIZE(units) - 1) {
		v /= 1000;
		u++;
	}
	snprintf(buf, OUTPUT_RATE_TEXT, "%.*f %s", u > 0 && v < 99.95 ? 1 : 0, v, units[u]);
	return buf;
}
