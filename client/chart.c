/*
 * The layout is a column of rows of equal height, so labels cannot overlap: each one is cut to the
 * characters that its column holds. The whole name is in the row's title, which browsers show.
 * Colours come from classes, which change with the reader's dark mode.
 */
#include "client/chart.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/output.h"
#include "client/snapshot.h"
#include "client/summary.h"
#include "client/timeline.h"
#include "common/util/cleanup.h"
#include "common/util/escape.h"
#include "common/util/parse.h"

#define WIDTH 1120
#define LEFT 250  /* where the bars begin */
#define BARS 510  /* width of the bars */
#define RIGHT 772 /* where the texts after the bars begin */
#define TOP 116	  /* where the rows begin */
#define ROW 20
#define CURVE 90 /* height of the chart of the rate */
#define MAX_TICKS 6
#define N_SAMPLES 170
#define LEFT_CHARS 30
#define RIGHT_CHARS 46
#define LINE_CHARS 150
#define MAX_LINES 40 /* of failure reasons */

static const char style[] =
	"<style>svg{background:#fff;font:12px sans-serif}text{fill:#222}.g{stroke:#ccc}"
	".queued{fill:#bbb}.probing{fill:#8cb8e8}.preparing{fill:#c9a3e0}.staging{fill:#2f74c0}"
	".ready{fill:#3a9a4a}.failed{fill:#d03030}.undone{fill:#e0a040}.t{font-size:16px}"
	".c{fill:none;stroke:#2f74c0;stroke-width:2}.most{fill:none;stroke:#888}.slow{fill:none;"
	"stroke:#c05000;stroke-width:2}.read{fill:#0b3316}"
	"@media(prefers-color-scheme:dark){svg{background:#181818}text{fill:#ddd}.g{stroke:#444}"
	".queued{fill:#666}}</style>\n";

/* Writes text or an attribute of XML, escaped so that it cannot end the text or attribute. */
static void put_xml(FILE *f, const char *text)
{
	for (; *text; text++) {
		const unsigned char *u = (const unsigned char *)text;

		if (strchr("&<>\"'", *text))
			fprintf(f, "&#%d;", *text);
		else if (u[0] == 0xef && u[1] == 0xbf && u[2] >= 0xbe)
			text += 2; /* U+FFFE and U+FFFF are not allowed in XML */
		else
			fputc(*text, f);
	}
}

/* Writes at most n_chars characters, then "…" if the text is longer. */
static void put_cut(FILE *f, const char *text, size_t n_chars)
{
	char escaped[1024];
	size_t n = 0, i;

	text_escape(escaped, sizeof(escaped), text, strlen(text));
	for (i = 0; escaped[i]; i++) {
		n += ((unsigned char)escaped[i] & 0xc0) != 0x80;
		if (n > n_chars)
			break;
	}
	n = escaped[i] != '\0';
	escaped[i] = '\0';
	put_xml(f, escaped);
	if (n)
		fputs("…", f);
}

static void put_text(FILE *f, unsigned x, unsigned y, const char *text, size_t n_chars)
{
	fprintf(f, "<text x=\"%u\" y=\"%u\">", x, y);
	put_cut(f, text, n_chars);
	fputs("</text>\n", f);
}

static const char *get_class(enum stage_state state)
{
	switch (state) {
	case STAGE_RELEASING:
	case STAGE_UNDOING:
	case STAGE_RELEASED:
		return "undone";
	default:
		return stage_state_to_string(state);
	}
}

static double get_x(const struct timeline_list *l, uint64_t unix_ms)
{
	uint64_t all = l->axis_ms, ms = unix_ms - l->begun_ms;

	if (ms > all)
		ms = all;
	return LEFT + (all ? (double)BARS * (double)ms / (double)all : 0);
}

static bool has_reads(const struct timeline_list *l)
{
	for (size_t i = 0; i < l->n_items; i++)
		if (l->items[i].last_read_ms > timeline_get_wait_ms(&l->items[i]))
			return true;
	return false;
}

static void put_legend(FILE *f, const struct timeline_list *l)
{
	static const char *const names[] = { "queued", "probing", "preparing", "staging",
					     "ready",  "failed",  "undone" };
	static const char *const labels[ARRAY_SIZE(names)] = { [6] = "removed" };
	unsigned x = 16;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++, x += 100) {
		fprintf(f, "<rect class=\"%s\" x=\"%u\" y=\"58\" width=\"12\" height=\"12\"/>\n",
			names[i], x);
		put_text(f, x + 18, 68, labels[i] ? labels[i] : names[i], RIGHT_CHARS);
	}
	fprintf(f, "<rect class=\"slow\" x=\"%u\" y=\"58\" width=\"12\" height=\"12\"/>\n", x);
	put_text(f, x + 18, 68, "slowest node", RIGHT_CHARS);
	if (!has_reads(l))
		return;
	x += 112;
	fprintf(f,
		"<rect class=\"ready\" x=\"%u\" y=\"58\" width=\"24\" height=\"12\"/>\n"
		"<rect class=\"read\" x=\"%u\" y=\"62\" width=\"16\" height=\"4\"/>\n",
		x, x);
	put_text(f, x + 30, 68, "dark band: until the last read", RIGHT_CHARS);
}

static void put_head(FILE *f, const struct timeline_list *l, size_t n_rows)
{
	const char *job = l->n_items ? kv_get_or_empty(l->items[0].snapshot->kv, "job") : "";
	char text[256];

	snprintf(text, sizeof(text), "Staging of %s%.100s", *job ? "job " : "this job", job);
	fputs("<text class=\"t\" x=\"16\" y=\"26\">", f);
	put_cut(f, text, 60);
	fputs("</text>\n", f);
	snprintf(text, sizeof(text),
		 "Each row is one dataset on %s The axis is the time since the first dataset was "
		 "queued.",
		 n_rows < l->n_items
			 ? "a group of nodes. It shows a node that failed, or else the slowest one."
			 : "one node.");
	put_text(f, 16, 46, text, LINE_CHARS);
	put_legend(f, l);
	put_text(f, 16, TOP - 6, "Dataset and node", LEFT_CHARS);
	put_text(f, RIGHT, TOP - 6, "Time until ready", RIGHT_CHARS);
}

/* Returns the time between two ticks: a round number that gives at most MAX_TICKS ticks. */
static uint64_t get_tick_ms(uint64_t all)
{
	static const uint64_t ticks[] = {
		100,   200,    500,    1000,   2000,   5000,	10000,	 15000,	  30000,
		60000, 120000, 300000, 600000, 900000, 1800000, 3600000, 7200000, 14400000,
	};
	uint64_t tick = ticks[0];

	for (size_t i = 1; i < ARRAY_SIZE(ticks) && all / tick >= MAX_TICKS; i++)
		tick = ticks[i];
	while (all / tick >= MAX_TICKS)
		tick *= 2;
	return tick;
}

static void put_ticks(FILE *f, const struct timeline_list *l, unsigned bottom)
{
	char text[PARSE_DURATION_TEXT];
	uint64_t all = l->axis_ms, tick = get_tick_ms(all);

	for (uint64_t ms = 0; ms <= all; ms += tick) {
		unsigned x = (unsigned)get_x(l, l->begun_ms + ms);

		fprintf(f, "<line class=\"g\" x1=\"%u\" y1=\"%d\" x2=\"%u\" y2=\"%u\"/>\n", x,
			TOP - 16, x, bottom);
		if (tick < 1000)
			duration_to_tenths(ms, text);
		else
			duration_to_string(ms, text);
		put_text(f, x, TOP - 20, text, 12);
	}
}

/* Draws a band in the bar of ready, from the time of ready to the last read. A last read after the
 * end of the axis is an arrow. */
static void put_read(FILE *f, const struct timeline_list *l, const struct timeline *t, unsigned y)
{
	uint64_t ready_ms = timeline_get_wait_ms(t);
	double x, end;

	if (t->last_read_ms <= ready_ms)
		return;
	x = get_x(l, t->begun_ms + ready_ms);
	end = get_x(l, t->begun_ms + t->last_read_ms);
	fprintf(f, "<rect class=\"read\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"4\"/>\n", x,
		y + 7, end - x < 1 ? 1 : end - x);
	if (t->begun_ms - l->begun_ms + t->last_read_ms > l->axis_ms)
		fprintf(f, "<polyline class=\"read\" points=\"%.1f,%u %.1f,%u %.1f,%u\"/>\n",
			end - 9, y + 3, end, y + 9, end - 9, y + 15);
}

static void put_bars(FILE *f, const struct timeline_list *l, const struct timeline *t, bool slowest,
		     unsigned y)
{
	double begin = get_x(l, t->begun_ms), end = begin;

	for (size_t i = 0; i < t->n_states; i++) {
		uint64_t until = i + 1 < t->n_states ? t->states[i + 1].ms : t->age_ms;
		double x = get_x(l, t->begun_ms + t->states[i].ms);

		end = get_x(l, t->begun_ms + until);
		fprintf(f,
			"<rect class=\"%s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"14\"/>\n",
			get_class(t->states[i].state), x, y + 2, end - x < 1 ? 1 : end - x);
	}
	put_read(f, l, t, y);
	if (slowest)
		fprintf(f,
			"<rect class=\"slow\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"16\"/>\n",
			begin, y + 1, end - begin < 1 ? 1 : end - begin);
}

static void put_row(FILE *f, const struct timeline_list *l, const struct timeline_row *row,
		    unsigned y)
{
	const struct timeline *t = row->timeline;
	const struct snapshot *s = t->snapshot;
	char text[900], nodes[560], time[PARSE_DURATION_TEXT], read[64] = "";
	char failed[TIMELINE_FAILED_TEXT];
	bool group = row->n_nodes > 1;

	snprintf(nodes, sizeof(nodes), "%.255s%s%.255s", row->first, group ? "–" : "",
		 group ? row->last : "");
	fputs("<g><title>", f);
	if (t->last_read_ms)
		snprintf(read, sizeof(read), ", read until %s",
			 duration_to_tenths(t->last_read_ms, time));
	timeline_row_failed_to_string(row, failed);
	snprintf(text, sizeof(text), "%.128s on %s%s%s", s->name, nodes, failed, read);
	put_cut(f, text, sizeof(text));
	fputs("</title>\n", f);
	snprintf(text, sizeof(text), "%.12s %s", s->name, nodes);
	put_text(f, 16, y + 14, text, LEFT_CHARS);
	put_bars(f, l, t, row->slowest, y);
	snprintf(text, sizeof(text), "%s%s%s%.255s%s",
		 duration_to_tenths(timeline_get_wait_ms(t), time), failed,
		 row->slowest ? ", slowest: " : "", row->slowest ? row->slowest : "", read);
	put_text(f, RIGHT, y + 14, text, RIGHT_CHARS);
	fputs("</g>\n", f);
}

static uint64_t get_sum(const struct timeline_list *l, uint64_t unix_ms)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < l->n_items; i++)
		if (unix_ms > l->items[i].begun_ms)
			sum += timeline_get_bytes(&l->items[i], unix_ms - l->items[i].begun_ms);
	return sum;
}

/* Draws the total rate of all nodes over time. */
static void put_curve(FILE *f, const struct timeline_list *l, unsigned y)
{
	uint64_t rates[N_SAMPLES], last = 0, bytes, most = 0, all = l->axis_ms;
	char text[128], rate[OUTPUT_RATE_TEXT], size[PARSE_SIZE_TEXT];

	for (size_t i = 0; i < N_SAMPLES; i++) {
		bytes = get_sum(l, l->begun_ms + all * (i + 1) / N_SAMPLES);
		rates[i] = all && bytes > last ? (uint64_t)((double)(bytes - last) * 1000 *
							    N_SAMPLES / (double)all)
					       : 0;
		most = rates[i] > most ? rates[i] : most;
		last = bytes;
	}
	snprintf(text, sizeof(text), "Rate of all nodes");
	put_text(f, 16, y + 14, text, LEFT_CHARS);
	snprintf(text, sizeof(text), "at most %s", rate_to_string(most, rate));
	put_text(f, 16, y + 32, text, LEFT_CHARS);
	snprintf(text, sizeof(text), "%s in total", size_to_string(last, size));
	put_text(f, 16, y + 50, text, LEFT_CHARS);
	fputs("<polyline class=\"c\" points=\"", f);
	for (size_t i = 0; i < N_SAMPLES; i++)
		fprintf(f, "%s%.1f,%.1f", i ? " " : "",
			LEFT + (double)BARS * (double)(i + 1) / N_SAMPLES,
			y + CURVE - (most ? (double)CURVE * (double)rates[i] / (double)most : 0));
	fputs("\"/>\n", f);
}

/* Draws the memory of the node with the least free memory. The width of the chart stands for the
 * limit. */
static unsigned put_memory(FILE *f, const struct timeline_list *l, unsigned y)
{
	const struct timeline *t = timeline_list_get_fullest(l);
	char text[TIMELINE_MEMORY_TEXT];
	double part;

	if (!t || !timeline_list_get_memory(l, text))
		return y;
	part = t->mem_taken < t->mem_most ? (double)t->mem_taken / (double)t->mem_most : 1;
	put_text(f, 16, y + 14, "Memory for datasets", LEFT_CHARS);
	fprintf(f,
		"<rect class=\"staging\" x=\"%d\" y=\"%u\" width=\"%.1f\" height=\"14\"/>\n"
		"<rect class=\"most\" x=\"%d\" y=\"%u\" width=\"%d\" height=\"16\"/>\n",
		LEFT, y + 2, BARS * part, LEFT, y + 1, BARS);
	put_text(f, 16, y + 14 + ROW, text, LINE_CHARS);
	return y + 2 * ROW;
}

/* Returns the length of the next line, of at most LINE_CHARS bytes, which ends at a blank if there
 * is one. */
static size_t get_line_size(const char *text)
{
	size_t size = strlen(text);

	if (size <= LINE_CHARS)
		return size;
	for (size = LINE_CHARS; size && text[size] != ' '; size--)
		;
	if (size)
		return size;
	for (size = LINE_CHARS; size > 1 && ((unsigned char)text[size] & 0xc0) == 0x80; size--)
		; /* not inside a UTF-8 character */
	return size;
}

/* Draws the texts of the failed nodes. They are broken into lines and not cut, because hints are at
 * their ends. */
static unsigned put_reasons(FILE *f, const struct timeline_list *l, unsigned y)
{
	_cleanup_(freep) char *text = NULL;
	size_t size, n = 0;
	char *line, *rest;
	FILE *to = open_memstream(&text, &size);

	if (!to)
		return y;
	summary_print_failures(l->snapshots, to);
	if (fclose(to))
		return y;
	for (rest = text; (line = strsep(&rest, "\n"));) {
		for (; *line && n < MAX_LINES; line += size, n++) {
			char piece[LINE_CHARS + 1];

			line += *line == ' ';
			size = get_line_size(line);
			snprintf(piece, sizeof(piece), "%.*s", (int)size, line);
			y += ROW;
			put_text(f, 16, y, piece, LINE_CHARS);
		}
	}
	return y;
}

int chart_write_svg(const struct timeline_list *l, FILE *f)
{
	_cleanup_(freep) struct timeline_row *rows = NULL;
	_cleanup_(freep) char *body = NULL;
	size_t n_rows, size;
	unsigned bottom, y;
	FILE *b;

	if (timeline_list_get_rows(l, CHART_MAX_ROWS, &rows, &n_rows) < 0)
		return -ENOMEM;
	b = open_memstream(&body, &size);
	if (!b)
		return -ENOMEM;
	bottom = TOP + (unsigned)n_rows * ROW;
	put_head(b, l, n_rows);
	put_ticks(b, l, bottom + 20 + CURVE);
	for (size_t i = 0; i < n_rows; i++)
		put_row(b, l, &rows[i], TOP + (unsigned)i * ROW);
	put_curve(b, l, bottom + 20);
	y = put_memory(b, l, bottom + 30 + CURVE);
	y = put_reasons(b, l, y);
	if (fclose(b))
		return -ENOMEM;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"viewBox=\"0 0 %d %u\" role=\"img\" aria-label=\"Staging of this job\">\n",
		WIDTH, y + 16, WIDTH, y + 16);
	fputs(style, f);
	fputs(body, f);
	fputs("</svg>\n", f);
	return 0;
}

int chart_write_html(const struct timeline_list *l, FILE *f)
{
	int r;

	/* On a narrow screen, the chart scrolls and is not made smaller, because small letters are
	 * unreadable. */
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
	      "<title>Staging of this job</title>"
	      "<style>:root{color-scheme:light dark}body{margin:0;background:#fff}"
	      "div{overflow-x:auto}svg{display:block}"
	      "@media(prefers-color-scheme:dark){body{background:#181818}}</style>"
	      "</head><body><div>\n",
	      f);
	r = chart_write_svg(l, f);
	fputs("</div></body></html>\n", f);
	return r;
}
