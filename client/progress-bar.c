/*
 * The bar is one line for all datasets: their sums if all totals are known, otherwise the slowest
 * dataset. It is drawn with CR and "erase to end of line" only, which every terminal since the
 * VT100 knows, and cut to the width, because a line that wraps can't be drawn over.
 */
#include "client/progress-bar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/output.h"
#include "client/snapshot.h"
#include "client/summary.h"
#include "common/dataset/dataset.h"
#include "common/util/count.h"
#include "common/util/fd.h"
#include "common/util/parse.h"

#define BAR_INTERVAL_MS 100
#define BAR_CELLS 20
#define MAX_TRACKED (SUMMARY_MAX_ROWS * DATASET_MAX_ITEMS) /* more nodes are summed up */
#define UNKNOWN_STEP (1ULL << 30) /* without a total, there is a line at 1, 2, 4, … GiB */
#define SILENT_MS 60000		  /* a line is printed after that time without one */
#define READS_PER_MESSAGE 256	  /* of datasets in the list, on average */

struct tracked {
	char *key; /* node/name */
	int last_tenth;
	uint64_t last_bytes;
	bool ended;
};

struct progress {
	FILE *f;
	enum progress_style style;
	size_t n_nodes;
	bool drawn;
	uint64_t drawn_at_ms;
	struct tracked tracked[MAX_TRACKED];
	size_t n_tracked;
	uint64_t start_ms;
	uint64_t line_ms;  /* when the last line was printed; 0: none */
	size_t n_messages; /* since many nodes were summed up last */
	size_t n_reads;	   /* of datasets in the list, at that time */
	bool is_behind;	   /* there was a change since */
};

int progress_new(struct progress **pp, FILE *f, enum progress_style style)
{
	struct progress *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->f = f;
	p->style = style;
	if (style == PROGRESS_AUTO)
		p->style = isatty(fileno(f)) ? PROGRESS_BAR : PROGRESS_LINES;
	p->start_ms = clock_ms();
	*pp = p;
	return 0;
}

void progress_set_nodes(struct progress *p, size_t n_nodes)
{
	p->n_nodes = n_nodes;
}

void progress_clear(struct progress *p)
{
	if (!p->drawn)
		return;
	fputs("\r\033[K", p->f);
	fflush(p->f);
	p->drawn = false;
	p->drawn_at_ms = 0;
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	progress_clear(p);
	for (size_t i = 0; i < p->n_tracked; i++)
		free(p->tracked[i].key);
	free(p);
}

struct amount {
	char label[128];
	uint64_t done, total, rate, eta_ms;
	int percent; /* -1: unknown */
};

/* Writes the known parts of "41 %  61.2 GiB of 148 GiB  2.1 GB/s  ETA 1:10". */
static void amount_to_string(const struct amount *a, char *buf, size_t size)
{
	char done[PARSE_SIZE_TEXT], total[PARSE_SIZE_TEXT];
	char rate[OUTPUT_RATE_TEXT], eta[PARSE_DURATION_TEXT];
	int n = 0;

	if (a->percent >= 0)
		n = snprintf(buf, size, "%3d %%  ", a->percent);
	n += snprintf(buf + n, size - (size_t)n, "%s", size_to_string(a->done, done));
	if (a->total)
		n += snprintf(buf + n, size - (size_t)n, " of %s", size_to_string(a->total, total));
	if (a->rate)
		n += snprintf(buf + n, size - (size_t)n, "  %s", rate_to_string(a->rate, rate));
	if (a->eta_ms)
		snprintf(buf + n, size - (size_t)n, "  ETA %s", duration_to_string(a->eta_ms, eta));
}

static size_t terminal_width(FILE *f)
{
	struct winsize ws;

	if (ioctl(fileno(f), TIOCGWINSZ, &ws) < 0 || ws.ws_col == 0)
		return 80;
	return ws.ws_col;
}

static bool is_drawn_lately(const struct progress *p)
{
	return p->drawn && clock_ms() - p->drawn_at_ms < BAR_INTERVAL_MS;
}

static void draw_bar(struct progress *p, const struct amount *a)
{
	char line[1024], label[512], text[256], bar[BAR_CELLS + 1];
	size_t width = terminal_width(p->f), n;

	if (is_drawn_lately(p))
		return;
	text_escape(label, sizeof(label), a->label, strlen(a->label));
	amount_to_string(a, text, sizeof(text));
	memset(bar, '.', BAR_CELLS);
	bar[BAR_CELLS] = '\0';
	if (a->percent > 0)
		memset(bar, '#', (size_t)(a->percent * BAR_CELLS / 100));
	snprintf(line, sizeof(line), "%s  [%s]  %s", label, bar, text);
	for (n = 0; n < width - 1 && line[n]; n++)
		;
	while (n > 0 && ((unsigned char)line[n] & 0xc0) == 0x80)
		n--; /* not inside a UTF-8 character */
	fprintf(p->f, "\r%.*s\033[K", (int)n, line);
	fflush(p->f);
	p->drawn = true;
	p->drawn_at_ms = clock_ms();
}

/* The key of a dataset is node/name; for a single node, node is "". */
static struct tracked *get_tracked(struct progress *p, const char *node, const char *name)
{
	struct tracked *t;
	char key[256];

	snprintf(key, sizeof(key), "%s/%s", node, name);
	for (size_t i = 0; i < p->n_tracked; i++)
		if (!strcmp(p->tracked[i].key, key))
			return &p->tracked[i];
	if (p->n_tracked == MAX_TRACKED)
		return NULL;
	t = &p->tracked[p->n_tracked];
	*t = (struct tracked){ .key = strdup(key), .last_bytes = UNKNOWN_STEP / 2 };
	if (!t->key)
		return NULL;
	p->n_tracked++;
	return t;
}

/* Prints "n1: a: ", without the part that is "". Escapes them, because the daemon may belong to
 * another user. */
static void begin_line(struct progress *p, const char *node, const char *name)
{
	char text[512];

	if (!*node)
		node = output_get_step_node();
	text_escape(text, sizeof(text), node, strlen(node));
	fprintf(p->f, "%s%s", text, node[0] ? ": " : "");
	text_escape(text, sizeof(text), name, strlen(name));
	fprintf(p->f, "%s%s", text, name[0] ? ": " : "");
	p->line_ms = clock_ms();
}

/* Returns whether a line is due: every 10 %, or without a total at 1, 2, 4, … GiB. */
static bool is_due(struct tracked *t, const struct amount *a)
{
	if (a->percent >= 0) {
		if (a->percent / 10 <= t->last_tenth)
			return false;
		t->last_tenth = a->percent / 10;
		return true;
	}
	if (a->done < t->last_bytes * 2)
		return false;
	t->last_bytes = a->done;
	return true;
}

static void print_line(struct progress *p, const char *node, const struct amount *a)
{
	struct tracked *t = get_tracked(p, node, a->label);
	char text[256];

	if (!t || !is_due(t, a))
		return;
	amount_to_string(a, text, sizeof(text));
	begin_line(p, node, a->label);
	fprintf(p->f, "%s\n", text + strspn(text, " "));
	fflush(p->f);
}

static void amount_of(const struct snapshot *s, struct amount *a)
{
	*a = (struct amount){ .done = s->bytes,
			      .total = s->total,
			      .rate = s->rate,
			      .eta_ms = s->eta_ms,
			      .percent = snapshot_get_percent(s) };
	snprintf(a->label, sizeof(a->label), "%s", s->name);
}

static void print_end(struct progress *p, const struct snapshot *s)
{
	struct tracked *t = get_tracked(p, p->n_nodes ? s->node : "", s->name);
	char size[PARSE_SIZE_TEXT], time[PARSE_DURATION_TEXT];

	if (!t || t->ended || s->state != STAGE_READY)
		return;
	t->ended = true;
	begin_line(p, p->n_nodes ? s->node : "", s->name);
	fprintf(p->f, "ready, %s in %s\n", size_to_string(s->total ? s->total : s->bytes, size),
		duration_to_tenths(s->elapsed_ms, time));
	fflush(p->f);
}

/* Sums up several datasets if each has a total. The ETA is the one of the slowest dataset. */
static void sum_up(const struct snapshot_list *l, bool nodes, struct amount *a)
{
	const struct snapshot *slowest;
	size_t n_unfinished, n_ready = 0;

	slowest = snapshot_list_get_slowest(l, &n_unfinished);
	if (l->n_items == 1 || !slowest) {
		amount_of(slowest ? slowest : &l->items[0], a);
		return;
	}
	*a = (struct amount){ .eta_ms = slowest->eta_ms };
	for (size_t i = 0; i < l->n_items; i++) {
		n_ready += l->items[i].state == STAGE_READY;
		a->done += l->items[i].bytes;
		a->total += l->items[i].total;
		a->rate += stage_state_is_final(l->items[i].state) ? 0 : l->items[i].rate;
		if (!l->items[i].total && l->items[i].state != STAGE_READY)
			a->percent = -1;
	}
	if (a->percent == 0 && a->total)
		a->percent = (int)((__uint128_t)a->done * 100 / a->total);
	if (a->percent < 0)
		a->total = 0;
	if (a->percent > 99)
		a->percent = 99;
	snprintf(a->label, sizeof(a->label), "%s%s%s (%zu of %zu ready)", slowest->name,
		 nodes ? " on " : "", nodes ? slowest->node : "", n_ready, l->n_items);
}

static void amount_of_summary(const struct summary *s, struct amount *a)
{
	*a = (struct amount){ .done = s->bytes,
			      .total = s->total,
			      .rate = s->rate,
			      .eta_ms = s->eta_ms,
			      .percent = summary_get_percent(s) };
	snprintf(a->label, sizeof(a->label), "%s", s->name);
}

static void end_line(FILE *f, const char *text)
{
	char escaped[1024];

	text_escape(escaped, sizeof(escaped), text, strlen(text));
	fprintf(f, "%s\n", escaped);
	fflush(f);
}

static void print_nodes_end(struct progress *p, const struct summary *s)
{
	struct tracked *t = get_tracked(p, "", s->name);
	char text[512], time[PARSE_DURATION_TEXT];

	if (!t || t->ended || s->n_states[STAGE_READY] < s->n_nodes || s->n_nodes < p->n_nodes)
		return;
	t->ended = true;
	begin_line(p, "", s->name);
	snprintf(text, sizeof(text), "ready on %zu %s, the slowest was %.255s, in %s", s->n_nodes,
		 count_word(s->n_nodes, "node", "nodes"), s->slowest->node,
		 duration_to_tenths(s->slowest->elapsed_ms, time));
	end_line(p->f, text);
}

static void print_nodes_line(struct progress *p, const struct summary *s)
{
	struct tracked *t = get_tracked(p, "", s->name);
	char text[640], amount[256], states[SUMMARY_STATES_TEXT];
	struct amount a;

	amount_of_summary(s, &a);
	if (!s->n_states[STAGE_STAGING] || !t || !is_due(t, &a))
		return;
	amount_to_string(&a, amount, sizeof(amount));
	snprintf(text, sizeof(text), "%s  %s, slowest %.255s", amount + strspn(amount, " "),
		 summary_get_states(s, states), s->slowest->node);
	begin_line(p, "", s->name);
	end_line(p->f, text);
}

static void print_nodes(struct progress *p, const struct snapshot_list *l)
{
	_cleanup_(freep) struct summary *all = NULL;
	size_t n = 0;

	(void)summary_of_all(&all, &n, l);
	for (size_t i = 0; i < n; i++) {
		print_nodes_line(p, &all[i]);
		print_nodes_end(p, &all[i]);
	}
}

/* A sum over all nodes reads the whole list. With 1,000 nodes and many datasets, messages would
 * arrive faster than that. So messages are collected until they are worth it. */
static void print_nodes_in_turn(struct progress *p, const struct snapshot_list *l)
{
	p->is_behind = ++p->n_messages * READS_PER_MESSAGE < p->n_reads;
	if (p->is_behind)
		return;
	print_nodes(p, l);
	p->n_reads = l->n_items;
	p->n_messages = 0;
}

void progress_end(struct progress *p, const struct snapshot_list *l)
{
	if (p->is_behind)
		print_nodes(p, l);
	p->is_behind = false;
}

static void print_node(struct progress *p, const struct snapshot *s)
{
	struct amount a;

	amount_of(s, &a);
	if (s->state == STAGE_STAGING)
		print_line(p, p->n_nodes ? s->node : "", &a);
	print_end(p, s);
}

void progress_update(struct progress *p, const struct snapshot_list *l,
		     const struct snapshot *changed)
{
	struct amount a;

	if (l->n_items == 0 || p->style == PROGRESS_NONE)
		return;
	if (p->style == PROGRESS_BAR) {
		if (is_drawn_lately(p))
			return;
		sum_up(l, p->n_nodes, &a);
		draw_bar(p, &a);
		return;
	}
	if (p->n_nodes > SUMMARY_MAX_ROWS || (p->n_nodes && summary_is_wanted(l))) {
		print_nodes_in_turn(p, l);
		return;
	}
	for (size_t i = 0; !changed && i < l->n_items; i++)
		print_node(p, &l->items[i]);
	if (changed)
		print_node(p, changed);
}

uint64_t progress_tick(struct progress *p, const struct snapshot_list *l)
{
	char text[512];

	if (p->style != PROGRESS_LINES)
		return 0;
	progress_end(p, l);
	if (!p->line_ms || clock_ms() >= p->line_ms + SILENT_MS) {
		progress_hold_text(l, text, sizeof(text)); /* names the node */
		if (!text[0])
			begin_line(p, "", "");
		end_line(p->f, text[0] ? text : "waiting for the datasets");
		p->line_ms = clock_ms();
	}
	return PROGRESS_TICK_MS;
}

void progress_set(struct progress *p, const char *label, uint64_t done, int percent)
{
	struct amount a = { .done = done, .percent = percent };
	uint64_t ms = clock_ms() - p->start_ms;

	if (p->style == PROGRESS_NONE)
		return;
	snprintf(a.label, sizeof(a.label), "%s", label);
	if (ms > 0)
		a.rate = (uint64_t)((__uint128_t)done * 1000 / ms);
	if (percent > 0 && percent < 100 && ms > 1000)
		a.eta_ms = ms * (uint64_t)(100 - percent) / (uint64_t)percent;
	if (p->style == PROGRESS_BAR)
		draw_bar(p, &a);
	else
		print_line(p, "", &a);
}

static void hold_text_of_nodes(const struct snapshot_list *l, const char *name, char *buf,
			       size_t size)
{
	char rate[OUTPUT_RATE_TEXT], eta[PARSE_DURATION_TEXT], states[SUMMARY_STATES_TEXT];
	struct summary s;
	int n, percent;

	summary_of(&s, l, name);
	percent = summary_get_percent(&s);
	n = snprintf(buf, size, "%.64s", name);
	if (percent >= 0)
		n += snprintf(buf + n, size - (size_t)n, " %d %%", percent);
	if (s.rate)
		n += snprintf(buf + n, size - (size_t)n, " %s", rate_to_string(s.rate, rate));
	if (s.eta_ms)
		n += snprintf(buf + n, size - (size_t)n, " ETA %s",
			      duration_to_string(s.eta_ms, eta));
	snprintf(buf + n, size - (size_t)n, ", %.100s, slowest %.40s",
		 summary_get_states(&s, states), s.slowest->node);
}

void progress_hold_text(const struct snapshot_list *l, char *buf, size_t size)
{
	char rate[OUTPUT_RATE_TEXT], eta[PARSE_DURATION_TEXT], state[SNAPSHOT_STATE_TEXT];
	const struct snapshot *s;
	size_t n_behind;
	int n, percent;

	buf[0] = '\0';
	s = snapshot_list_get_slowest(l, &n_behind);
	if (!s)
		return;
	if (summary_is_wanted(l)) {
		hold_text_of_nodes(l, s->name, buf, size);
		return;
	}
	percent = snapshot_get_percent(s);
	if (percent >= 0 && s->state == STAGE_STAGING)
		n = snprintf(buf, size, "%.64s %d %%", s->name, percent);
	else
		n = snprintf(buf, size, "%.64s %s", s->name, snapshot_get_state(s, state));
	if (s->rate)
		n += snprintf(buf + n, size - (size_t)n, " %s", rate_to_string(s->rate, rate));
	if (s->eta_ms)
		n += snprintf(buf + n, size - (size_t)n, " ETA %s",
			      duration_to_string(s->eta_ms, eta));
	if (s->node[0])
		n += snprintf(buf + n, size - (size_t)n, " (%.64s)", s->node);
	if (n_behind > 1)
		snprintf(buf + n, size - (size_t)n, " and %zu more not ready", n_behind - 1);
}
