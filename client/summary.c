/*
 * Nodes that failed for the same reason share a line. A line names a few of them, and a few reasons
 * are printed, because a job of 1,000 nodes can fail in 1,000 ways.
 */
#include "client/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/name-table.h"
#include "client/output.h"
#include "client/snapshot.h"
#include "client/table.h"
#include "common/util/count.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"

#define MAX_REASONS 12
#define MAX_NAMED 8

bool summary_is_wanted(const struct snapshot_list *l)
{
	const char *nodes[SUMMARY_MAX_ROWS];
	size_t n = 0, k;

	for (size_t i = 0; i < l->n_items; i++) {
		for (k = 0; k < n && strcmp(nodes[k], l->items[i].node); k++)
			;
		if (k < n)
			continue;
		if (n == SUMMARY_MAX_ROWS)
			return true;
		nodes[n++] = l->items[i].node;
	}
	return false;
}

/* A ready dataset is faster than one that is not ready. Of two ready ones, the staging times
 * decide. */
static bool is_slower(const struct snapshot *a, const struct snapshot *b)
{
	if ((a->state == STAGE_READY) != (b->state == STAGE_READY))
		return b->state == STAGE_READY;
	if (a->state == STAGE_READY)
		return a->elapsed_ms > b->elapsed_ms;
	if (a->eta_ms != b->eta_ms)
		return a->eta_ms > b->eta_ms;
	return snapshot_get_percent(a) < snapshot_get_percent(b);
}

static void add_node(struct summary *s, const struct snapshot *node)
{
	s->n_nodes++;
	s->n_states[node->state]++;
	s->n_warned += node->warning[0] != '\0';
	if (node->state == STAGE_FAILED || node->state == STAGE_RELEASED)
		return;
	s->lacks_total |= !node->total;
	s->bytes += node->state == STAGE_READY ? node->total : node->bytes;
	s->total = s->lacks_total ? 0 : s->total + node->total;
	if (!stage_state_is_final(node->state)) {
		s->rate += node->rate;
		if (node->eta_ms > s->eta_ms)
			s->eta_ms = node->eta_ms;
	}
	if (!s->slowest || is_slower(node, s->slowest))
		s->slowest = node;
	if (!s->fastest || is_slower(s->fastest, node))
		s->fastest = node;
}

void summary_of(struct summary *s, const struct snapshot_list *l, const char *name)
{
	*s = (struct summary){ .name = name };
	for (size_t i = 0; i < l->n_items; i++)
		if (!strcmp(l->items[i].name, name))
			add_node(s, &l->items[i]);
}

/* Each name is looked up in a hash table, because nodes answer in any order. A search in the list
 * would read all nodes of all datasets before. */
int summary_of_all(struct summary **sp, size_t *np, const struct snapshot_list *l)
{
	_cleanup_(name_table_deinit) struct name_table names = { 0 };
	struct summary *all = calloc(l->n_items + 1, sizeof(*all));

	for (size_t i = 0; all && i < l->n_items; i++) {
		const size_t n = name_table_add(&names, l->items[i].name);

		if (n == NAME_TABLE_NONE) {
			free(all);
			return -ENOMEM;
		}
		all[n].name = names.texts[n];
		add_node(&all[n], &l->items[i]);
	}
	if (!all)
		return -ENOMEM;
	*sp = all;
	*np = names.n;
	return 0;
}

int summary_get_percent(const struct summary *s)
{
	uint64_t percent;

	if (s->n_states[STAGE_READY] == s->n_nodes)
		return 100;
	if (s->total == 0)
		return -1;
	percent = (uint64_t)((__uint128_t)s->bytes * 100 / s->total);
	return percent > 99 ? 99 : (int)percent;
}

const char *summary_get_states(const struct summary *s, char buf[static SUMMARY_STATES_TEXT])
{
	int n = 0;

	buf[0] = '\0';
	for (int state = STAGE_N_STATES - 1; state >= 0; state--)
		if (s->n_states[state] && n < SUMMARY_STATES_TEXT)
			n += snprintf(buf + n, (size_t)(SUMMARY_STATES_TEXT - n), "%s%zu %s",
				      n ? ", " : "", s->n_states[state],
				      stage_state_to_string((enum stage_state)state));
	return buf;
}

/* clang-format off */
static const struct table_column columns[] = {
	{ "NAME",    false },
	{ "NODES",   true },
	{ "STATES",  false },
	{ "SIZE",    true },
	{ "DONE",    true },
	{ "RATE",    true },
	{ "ETA",     true },
	{ "FASTEST", false },
	{ "SLOWEST", false },
};
/* clang-format on */

#define NODE_TEXT 320

/* Writes "n7 (1:10)" if the dataset is ready, else "n7 (41 %)". */
static char *node_to_string(const struct snapshot *s, char buf[static NODE_TEXT])
{
	char time[PARSE_DURATION_TEXT];

	if (!s)
		buf[0] = '\0';
	else if (s->state == STAGE_READY)
		snprintf(buf, NODE_TEXT, "%.255s (%s)", s->node,
			 duration_to_tenths(s->elapsed_ms, time));
	else if (snapshot_get_percent(s) >= 0)
		snprintf(buf, NODE_TEXT, "%.255s (%d %%)", s->node, snapshot_get_percent(s));
	else
		snprintf(buf, NODE_TEXT, "%.255s", s->node);
	return buf;
}

static int add_row(struct table *t, const struct summary *s, bool colour)
{
	char n_nodes[24], states[SUMMARY_STATES_TEXT], size[PARSE_SIZE_TEXT] = "", done[16] = "";
	char rate[OUTPUT_RATE_TEXT] = "", eta[PARSE_DURATION_TEXT] = "", note[96];
	char fastest[NODE_TEXT], slowest[NODE_TEXT];
	const char *cells[] = { s->name, n_nodes, states, size, done, rate, eta, fastest, slowest };
	int percent = summary_get_percent(s), r;

	snprintf(n_nodes, sizeof(n_nodes), "%zu", s->n_nodes);
	summary_get_states(s, states);
	if (s->total)
		size_to_string(s->total, size);
	if (percent >= 0)
		snprintf(done, sizeof(done), "%d %%", percent);
	if (s->rate)
		rate_to_string(s->rate, rate);
	if (s->eta_ms)
		duration_to_string(s->eta_ms, eta);
	node_to_string(s->fastest, fastest);
	node_to_string(s->slowest, slowest);
	r = table_add_row(t, cells);
	if (r == 0 && colour)
		table_set_colour(t, 2,
				 s->n_states[STAGE_FAILED] ? OUTPUT_RED
				 : percent == 100	   ? OUTPUT_GREEN
							   : NULL);
	if (r < 0 || !s->n_warned)
		return r;
	snprintf(note, sizeof(note), "warnings on %zu %s; --nodes shows them", s->n_warned,
		 count_word(s->n_warned, "node", "nodes"));
	return table_add_note(t, note);
}

static bool has_failed_alike(const struct snapshot *a, const struct snapshot *b)
{
	return b->state == STAGE_FAILED && !strcmp(a->name, b->name) &&
	       !strcmp(a->reason, b->reason);
}

/* seen: positions of the failures with other reasons. */
static bool is_new_failure(const struct snapshot_list *l, size_t i, const size_t *seen, size_t n)
{
	if (l->items[i].state != STAGE_FAILED)
		return false;
	for (size_t k = 0; k < n; k++)
		if (has_failed_alike(&l->items[i], &l->items[seen[k]]))
			return false;
	return true;
}

/* Prints "images failed on 2 nodes (n3, n4): no space". */
static void print_failure(const struct snapshot_list *l, size_t first, FILE *f)
{
	_cleanup_(freep) char *text = NULL;
	const struct snapshot *s = &l->items[first];
	size_t n = 0, size;
	FILE *names = open_memstream(&text, &size);

	if (!names)
		return;
	for (size_t i = first; i < l->n_items; i++) {
		if (!has_failed_alike(s, &l->items[i]))
			continue;
		if (n++ < MAX_NAMED)
			fprintf(names, "%s%s", n > 1 ? ", " : "", l->items[i].node);
	}
	if (n > MAX_NAMED)
		fprintf(names, " and %zu more", n - MAX_NAMED);
	fprintf(names, "): %s", s->reason);
	if (fclose(names) == 0) {
		_cleanup_(freep) char *line = NULL;

		line = strutil_printf("%s failed on %zu node%s (%s", s->name, n, n > 1 ? "s" : "",
				      text);
		if (line)
			output_line(f, line);
	}
}

void summary_print_failures(const struct snapshot_list *l, FILE *f)
{
	size_t seen[MAX_REASONS], n = 0;

	for (size_t i = 0; i < l->n_items; i++) {
		if (!is_new_failure(l, i, seen, n))
			continue;
		if (n == MAX_REASONS) {
			fputs("There are more reasons; --nodes shows all.\n", f);
			return;
		}
		seen[n++] = i;
		print_failure(l, i, f);
	}
}

int summary_print(const struct snapshot_list *l, FILE *f)
{
	_cleanup_(table_freep) struct table *t = NULL;
	_cleanup_(freep) struct summary *all = NULL;
	bool colour = output_has_colour();
	size_t n = 0;
	int r = table_new(&t, columns, ARRAY_SIZE(columns));

	if (r == 0)
		r = summary_of_all(&all, &n, l);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_row(t, &all[i], colour);
	if (r < 0)
		return r;
	table_print(t, f);
	summary_print_failures(l, f);
	return 0;
}
