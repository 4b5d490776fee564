#include "client/timeline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/snapshot.h"
#include "common/protocol/kv.h"
#include "common/util/parse.h"

/* Parses "WORD:NUMBER" and a blank before the next pair. Returns the rest of text; NULL:
 * malformed. */
static const char *parse_pair(const char *text, char word[static 24], uint64_t *valuep)
{
	char number[20];
	int n = 0;

	if (sscanf(text, "%23[a-z0-9]:%19[0-9]%n", word, number, &n) != 2)
		return NULL;
	*valuep = strtoull(number, NULL, 10);
	text += n;
	if (*text != ' ')
		return *text ? NULL : text;
	return text[1] ? text + 1 : NULL;
}

static int parse_states(struct timeline *t, const char *text)
{
	uint64_t ms, last = 0;
	char word[24];

	while (*text) {
		enum stage_state state;

		text = parse_pair(text, word, &ms);
		if (!text || t->n_states == TIMELINE_MAX_STATES || ms < last || ms > t->age_ms ||
		    stage_state_from_string(word, &state) < 0)
			return -EPROTO;
		t->states[t->n_states].state = state;
		t->states[t->n_states++].ms = last = ms;
	}
	return t->n_states ? 0 : -EPROTO;
}

static int parse_series(struct timeline *t, const char *text)
{
	uint64_t bytes, last = 0;
	char word[24], *end;

	while (*text) {
		uint64_t ms;

		text = parse_pair(text, word, &bytes);
		if (!text || t->n_points == TIMELINE_MAX_POINTS)
			return -EPROTO;
		ms = strtoull(word, &end, 10);
		if (*end || ms < last || ms > t->age_ms)
			return -EPROTO;
		t->points[t->n_points].ms = last = ms;
		t->points[t->n_points++].bytes = bytes;
	}
	return 0;
}

/* Larger times are refused, so that sums and products cannot overflow. 2^52 ms are 140,000
 * years. */
#define MAX_MS (1ULL << 52)

int timeline_from_snapshot(struct timeline *t, const struct snapshot *s)
{
	const char *states = kv_get(s->kv, "states");
	int r;

	if (!states)
		return -ENODATA;
	*t = (struct timeline){ .snapshot = s,
				.begun_ms = kv_get_u64(s->kv, "begun", 0),
				.age_ms = kv_get_u64(s->kv, "age", 0),
				.last_read_ms = kv_get_u64(s->kv, "lastread", 0),
				.mem_taken = kv_get_u64(s->kv, "memtaken", 0),
				.mem_most = kv_get_u64(s->kv, "memmost", 0) };
	if (t->begun_ms > MAX_MS || t->age_ms > MAX_MS || t->last_read_ms > t->age_ms)
		return -EPROTO;
	r = parse_states(t, states);
	return r < 0 ? r : parse_series(t, kv_get_or_empty(s->kv, "series"));
}

uint64_t timeline_get_wait_ms(const struct timeline *t)
{
	for (size_t i = 0; i < t->n_states; i++)
		if (stage_state_is_final(t->states[i].state))
			return t->states[i].ms;
	return t->age_ms;
}

uint64_t timeline_get_bytes(const struct timeline *t, uint64_t ms)
{
	uint64_t last_ms = 0, last = 0;

	for (size_t i = 0; i < t->n_points; i++) {
		uint64_t at = t->points[i].ms, bytes = t->points[i].bytes;

		if (at >= ms && at > last_ms && bytes >= last)
			return last + (uint64_t)((double)(bytes - last) * (double)(ms - last_ms) /
						 (double)(at - last_ms));
		last_ms = at;
		last = bytes;
	}
	return last;
}

static int by_dataset(const void *a, const void *b)
{
	const struct snapshot *x = ((const struct timeline *)a)->snapshot;
	const struct snapshot *y = ((const struct timeline *)b)->snapshot;
	int r = strcmp(x->name, y->name);

	return r ? r : strverscmp(x->node, y->node);
}

/* Returns the number of items from i on that belong to the same dataset. */
static size_t count_alike(const struct timeline_list *l, size_t i)
{
	size_t n = 1;

	while (i + n < l->n_items &&
	       !strcmp(l->items[i].snapshot->name, l->items[i + n].snapshot->name))
		n++;
	return n;
}

static size_t find_slowest(const struct timeline *items, size_t n)
{
	size_t slowest = 0;

	for (size_t i = 1; i < n; i++)
		if (timeline_get_wait_ms(&items[i]) > timeline_get_wait_ms(&items[slowest]))
			slowest = i;
	return slowest;
}

static void mark_slowest(struct timeline_list *l)
{
	for (size_t i = 0, n; i < l->n_items; i += n) {
		n = count_alike(l, i);
		if (n > 1)
			l->items[i + find_slowest(&l->items[i], n)].slowest = true;
	}
}

static uint64_t get_axis_ms(const struct timeline_list *l)
{
	uint64_t staging = l->end_ms - l->begun_ms, axis = staging;

	for (size_t i = 0; i < l->n_items; i++) {
		const struct timeline *t = &l->items[i];
		uint64_t read = t->begun_ms - l->begun_ms + t->last_read_ms;

		if (t->last_read_ms && read > axis)
			axis = read;
	}
	if (staging && axis > staging * TIMELINE_AXIS_FACTOR)
		return staging * TIMELINE_AXIS_FACTOR;
	return axis;
}

int timeline_list_init(struct timeline_list *l, const struct snapshot_list *snapshots)
{
	*l = (struct timeline_list){ .begun_ms = UINT64_MAX, .snapshots = snapshots };
	l->items = calloc(snapshots->n_items + 1, sizeof(*l->items));
	if (!l->items)
		return -ENOMEM;
	for (size_t i = 0; i < snapshots->n_items; i++) {
		struct timeline *t = &l->items[l->n_items];

		if (timeline_from_snapshot(t, &snapshots->items[i]) < 0)
			continue;
		if (t->begun_ms < l->begun_ms)
			l->begun_ms = t->begun_ms;
		if (t->begun_ms + timeline_get_wait_ms(t) > l->end_ms)
			l->end_ms = t->begun_ms + timeline_get_wait_ms(t);
		l->n_items++;
	}
	if (!l->n_items)
		l->begun_ms = 0;
	l->axis_ms = get_axis_ms(l);
	qsort(l->items, l->n_items, sizeof(*l->items), by_dataset);
	mark_slowest(l);
	return 0;
}

void timeline_list_deinit(struct timeline_list *l)
{
	free(l->items);
	*l = (struct timeline_list){ 0 };
}

static double get_fullness(const struct timeline *t)
{
	return t->mem_most ? (double)t->mem_taken / (double)t->mem_most : 0;
}

const struct timeline *timeline_list_get_fullest(const struct timeline_list *l)
{
	const struct timeline *fullest = NULL;

	for (size_t i = 0; i < l->n_items; i++)
		if (l->items[i].mem_most &&
		    (!fullest || get_fullness(&l->items[i]) > get_fullness(fullest)))
			fullest = &l->items[i];
	return fullest;
}

bool timeline_list_get_memory(const struct timeline_list *l, char text[static TIMELINE_MEMORY_TEXT])
{
	const struct timeline *t = timeline_list_get_fullest(l);
	char taken[PARSE_SIZE_TEXT], most[PARSE_SIZE_TEXT];

	if (!t)
		return false;
	snprintf(text, TIMELINE_MEMORY_TEXT,
		 "Memory: datasets take %s of at most %s on %.255s. The limit is %.100s.",
		 size_to_string(t->mem_taken, taken), size_to_string(t->mem_most, most),
		 t->snapshot->node, kv_get_or_empty(t->snapshot->kv, "membound"));
	return true;
}

void timeline_row_failed_to_string(const struct timeline_row *row,
				   char buf[static TIMELINE_FAILED_TEXT])
{
	buf[0] = '\0';
	if (row->n_failed && row->n_nodes == 1)
		snprintf(buf, TIMELINE_FAILED_TEXT, " failed");
	else if (row->n_failed)
		snprintf(buf, TIMELINE_FAILED_TEXT, ", %zu of %zu failed", row->n_failed,
			 row->n_nodes);
}

static size_t count_datasets(const struct timeline_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_items; i += count_alike(l, i))
		n++;
	return n;
}

static bool has_failed(const struct timeline *t)
{
	return t->snapshot->state == STAGE_FAILED;
}

static struct timeline_row make_row(const struct timeline *group, size_t n_nodes)
{
	struct timeline_row row = { .timeline = &group[find_slowest(group, n_nodes)],
				    .first = group[0].snapshot->node,
				    .last = group[n_nodes - 1].snapshot->node,
				    .n_nodes = n_nodes };

	for (size_t i = 0; i < n_nodes; i++) {
		const struct timeline *t = &group[i];

		if (t->slowest)
			row.slowest = t->snapshot->node;
		if (!has_failed(t))
			continue;
		row.n_failed++;
		if (!has_failed(row.timeline) ||
		    timeline_get_wait_ms(t) > timeline_get_wait_ms(row.timeline))
			row.timeline = t;
	}
	return row;
}

int timeline_list_get_rows(const struct timeline_list *l, size_t max_rows,
			   struct timeline_row **rowsp, size_t *n_rowsp)
{
	struct timeline_row *rows = calloc(l->n_items + 1, sizeof(*rows));
	size_t n_datasets = count_datasets(l), n_rows = 0, per, n, size;

	if (!rows)
		return -ENOMEM;
	per = n_datasets && max_rows > n_datasets ? max_rows / n_datasets : 1;
	for (size_t i = 0; i < l->n_items; i += n) {
		n = count_alike(l, i);
		size = (n + per - 1) / per;
		for (size_t k = 0; k < n; k += size) {
			size_t n_nodes = k + size > n ? n - k : size;

			rows[n_rows++] = make_row(&l->items[i + k], n_nodes);
		}
	}
	*rowsp = rows;
	*n_rowsp = n_rows;
	return 0;
}
