/*
 * Lists of entries are merged, as that needs no more memory than a number for each. Then each entry
 * is moved to its place.
 */
#include "daemon/engines/archive/archive-sort.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/copy/stage-io.h"

enum {
	SORT_LISTS = 32,      /* of one entry, two, four, … */
	SORT_CHECK = 1 << 16, /* comparisons */
};

/* A list is the number of its first entry, and next has that of the one after each. */
struct sorter {
	const struct archive_record *records;
	const char *texts;
	uint32_t *next;
	struct stage_io *io;
	uint64_t n_compared;
	bool is_cancelled;
};

static int refuse_memory(struct error *err)
{
	return error_set(err, ENOMEM, "no memory for the index of the archive");
}

static bool is_before(struct sorter *s, uint32_t i, uint32_t k)
{
	const struct archive_record *v = &s->records[i], *w = &s->records[k];

	if (s->n_compared++ % SORT_CHECK == 0)
		s->is_cancelled = stage_io_is_cancelled(s->io);
	if (v->parent != w->parent)
		return v->parent < w->parent;
	return strcmp(s->texts + v->name, s->texts + w->name) < 0;
}

static uint32_t merge(struct sorter *s, uint32_t a, uint32_t b)
{
	uint32_t list = ARCHIVE_INDEX_NONE, *last = &list;

	while (a != ARCHIVE_INDEX_NONE && b != ARCHIVE_INDEX_NONE && !s->is_cancelled) {
		uint32_t *first = is_before(s, b, a) ? &b : &a;

		*last = *first;
		last = &s->next[*first];
		*first = *last;
	}
	*last = a != ARCHIVE_INDEX_NONE ? a : b;
	return list;
}

/* All but the root. */
static uint32_t sort(struct sorter *s, uint32_t n)
{
	uint32_t lists[SORT_LISTS], all = ARCHIVE_INDEX_NONE;
	size_t k;

	memset(lists, 0xff, sizeof(lists)); /* ARCHIVE_INDEX_NONE */
	for (uint32_t i = ARCHIVE_INDEX_ROOT + 1; i < n && !s->is_cancelled; i++) {
		uint32_t list = i;

		s->next[i] = ARCHIVE_INDEX_NONE;
		for (k = 0; lists[k] != ARCHIVE_INDEX_NONE; k++) {
			list = merge(s, lists[k], list);
			lists[k] = ARCHIVE_INDEX_NONE;
		}
		lists[k] = list;
	}
	for (k = 0; k < SORT_LISTS && !s->is_cancelled; k++)
		all = merge(s, lists[k], all);
	return all;
}

/* From a list to places. */
static void number_list(uint32_t *places, uint32_t i)
{
	uint32_t place = ARCHIVE_INDEX_ROOT, next;

	places[ARCHIVE_INDEX_ROOT] = place++;
	for (; i != ARCHIVE_INDEX_NONE; i = next) {
		next = places[i];
		places[i] = place++;
	}
}

static void move_all(struct archive_record *records, uint32_t n, uint32_t *places)
{
	for (uint32_t i = 0; i < n; i++) {
		while (places[i] != i) {
			uint32_t to = places[i];
			struct archive_record there = records[to];

			records[to] = records[i];
			records[i] = there;
			places[i] = places[to];
			places[to] = to;
		}
	}
}

int archive_sort(struct archive_record *records, uint32_t n, uint32_t *places, const char *texts,
		 struct stage_io *io, struct error *err)
{
	struct sorter s = { .records = records, .texts = texts, .next = places, .io = io };
	uint32_t list = sort(&s, n);

	if (s.is_cancelled)
		return stage_io_check(io, err);
	number_list(places, list);
	for (uint32_t i = 0; i < n; i++)
		records[i].parent = places[records[i].parent];
	move_all(records, n, places);
	return 0;
}

/* Directories get the range of their entries and their number of links, as in other file systems.
 */
static void set_ranges(struct archive_record *records, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct archive_record *dir = &records[records[i].parent];
		bool is_dir = records[i].type == MEMBER_DIR;

		if (is_dir)
			records[i].n_links += 2;
		if (i == ARCHIVE_INDEX_ROOT)
			continue;
		if (dir->size++ == 0)
			dir->start = i;
		dir->n_links += is_dir;
	}
}

static void count_records(struct archive_record *records, uint32_t n, uint32_t *links,
			  struct archive_counts *c)
{
	for (uint32_t i = 0; i < n; i++) {
		if (records[i].type == MEMBER_DIR)
			continue;
		links[records[i].number]++;
		c->n_files++;
		c->n_deflated += records[i].is_deflated;
		if (records[i].type == MEMBER_FILE)
			c->bytes += records[i].size;
	}
	for (uint32_t i = 0; i < n; i++)
		if (records[i].type != MEMBER_DIR)
			records[i].n_links = links[records[i].number];
	c->n_records = n;
}

int archive_sort_count(struct archive_record *records, uint32_t n, uint32_t n_numbers,
		       struct archive_counts *counts, struct error *err)
{
	_cleanup_(freep) uint32_t *links = calloc((size_t)n_numbers + 1, sizeof(*links));

	if (!links)
		return refuse_memory(err);
	set_ranges(records, n);
	count_records(records, n, links, counts);
	return 0;
}
