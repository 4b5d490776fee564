/*
 * The entries of a directory are in a list, because this needs only one number for each entry. The
 * field n_links is used for it, which is not needed yet. Most lists are sorted already; the others
 * are sorted by merging. Then each entry is moved to its place
 * (archive-table.h).
 */
#include "daemon/engines/archive/archive-sort.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/archive-table.h"
#include "daemon/engines/copy/stage-io.h"

enum {
	SORT_LISTS = 32,      /* lists of one entry, two, four, … */
	SORT_CHECK = 1 << 16, /* steps between two checks for a cancellation */
};

/* A list is the number of its first entry. n_links of each entry is the number of the next one. */
struct sorter {
	struct archive_record *records;
	uint32_t n;
	const char *texts;
	struct stage_io *io;
	uint64_t n_steps;
	bool is_cancelled;
};

static int refuse_memory(struct error *err)
{
	return error_set(err, ENOMEM, "no memory for the index of the archive");
}

static void count_step(struct sorter *s)
{
	if (s->n_steps++ % SORT_CHECK == 0)
		s->is_cancelled = stage_io_is_cancelled(s->io);
}

/* ---- lists ---- */

static bool is_before(struct sorter *s, uint32_t i, uint32_t k)
{
	count_step(s);
	return strcmp(s->texts + s->records[i].name, s->texts + s->records[k].name) < 0;
}

static void append(struct sorter *s, uint32_t *listp, uint32_t *lastp, uint32_t i)
{
	if (*lastp == ARCHIVE_INDEX_NONE)
		*listp = i;
	else
		s->records[*lastp].n_links = i;
	*lastp = i;
}

static uint32_t merge(struct sorter *s, uint32_t a, uint32_t b)
{
	uint32_t list = ARCHIVE_INDEX_NONE, last = ARCHIVE_INDEX_NONE;

	while (a != ARCHIVE_INDEX_NONE && b != ARCHIVE_INDEX_NONE && !s->is_cancelled) {
		uint32_t *first = is_before(s, b, a) ? &b : &a, i = *first;

		*first = s->records[i].n_links;
		append(s, &list, &last, i);
	}
	append(s, &list, &last, a != ARCHIVE_INDEX_NONE ? a : b);
	return list;
}

static uint32_t sort(struct sorter *s, uint32_t list)
{
	uint32_t lists[SORT_LISTS], all = ARCHIVE_INDEX_NONE, next;
	size_t k;

	memset(lists, 0xff, sizeof(lists)); /* ARCHIVE_INDEX_NONE */
	for (; list != ARCHIVE_INDEX_NONE && !s->is_cancelled; list = next) {
		uint32_t one = list;

		next = s->records[one].n_links;
		s->records[one].n_links = ARCHIVE_INDEX_NONE;
		for (k = 0; lists[k] != ARCHIVE_INDEX_NONE; k++) {
			one = merge(s, lists[k], one);
			lists[k] = ARCHIVE_INDEX_NONE;
		}
		lists[k] = one;
	}
	for (k = 0; k < SORT_LISTS && !s->is_cancelled; k++)
		all = merge(s, lists[k], all);
	return all;
}

/* Makes a list of each directory's entries, in the order in which they were added. Its `start` is
 * the list, and its size is the last entry of it. */
static void make_lists(struct archive_record *records, uint32_t n)
{
	struct archive_record *dir;

	for (uint32_t i = 0; i < n; i++) {
		records[i].n_links = ARCHIVE_INDEX_NONE;
		if (records[i].type == MEMBER_DIR)
			records[i].start = ARCHIVE_INDEX_NONE;
		if (i == ARCHIVE_INDEX_ROOT)
			continue;
		dir = &records[records[i].parent];
		if (dir->start == ARCHIVE_INDEX_NONE)
			dir->start = i;
		else
			records[dir->size].n_links = i;
		dir->size = i;
	}
}

/* ---- places ---- */

/* Gives the entries of a directory their places, from `first` on. Returns the next place. */
static uint32_t number_dir(struct sorter *s, struct archive_record *dir, uint32_t first)
{
	uint32_t i = (uint32_t)dir->start, place = first, next;

	if (dir->is_unsorted)
		i = sort(s, i);
	for (; i != ARCHIVE_INDEX_NONE && !s->is_cancelled; i = next) {
		count_step(s);
		next = s->records[i].n_links;
		s->records[i].n_links = place++;
		s->records[i].parent = dir->n_links;
	}
	dir->is_unsorted = false;
	dir->size = place - first;
	dir->start = dir->size > 0 ? first : 0;
	return place;
}

/* Sets n_links of each entry to its place, and parent to the place of its directory. A directory
 * comes before its entries, so its own place is known. */
static void number_all(struct sorter *s)
{
	uint32_t place = ARCHIVE_INDEX_ROOT + 1;

	s->records[ARCHIVE_INDEX_ROOT].n_links = ARCHIVE_INDEX_ROOT;
	for (uint32_t i = 0; i < s->n && !s->is_cancelled; i++)
		if (s->records[i].type == MEMBER_DIR)
			place = number_dir(s, &s->records[i], place);
}

int archive_sort(struct archive_table *t, struct stage_io *io, struct error *err)
{
	struct sorter s = { .records = t->records, .n = t->n, .texts = t->texts, .io = io };

	make_lists(t->records, t->n);
	number_all(&s);
	if (s.is_cancelled)
		return stage_io_check(io, err);
	archive_table_move(t);
	return 0;
}

/* ---- what depends on all entries ---- */

/* Sizes of sparse files have almost no limit, so the sum is limited. */
static void add_bytes(struct archive_counts *c, uint64_t n)
{
	c->bytes = n < UINT64_MAX - c->bytes ? c->bytes + n : UINT64_MAX;
}

/* Counts an entry. An entry that is not a directory has one link, if there are no hard links, and a
 * directory has as many as in other file systems. */
static void count_record(struct archive_record *records, uint32_t i, struct archive_counts *c)
{
	struct archive_record *rec = &records[i];

	rec->n_links = rec->type == MEMBER_DIR ? 2 : 1;
	if (rec->type == MEMBER_DIR) {
		records[rec->parent].n_links += i != ARCHIVE_INDEX_ROOT;
		return;
	}
	c->n_files++;
	c->n_deflated += rec->is_deflated;
	c->n_summed += rec->packed > 0 && !rec->is_deflated && !rec->is_sparse;
	if (rec->type == MEMBER_FILE)
		add_bytes(c, rec->size);
}

/* links: an array of zeros for each number. */
static void set_links(struct archive_record *records, uint32_t n, uint32_t *links)
{
	for (uint32_t i = 0; i < n; i++)
		if (records[i].type != MEMBER_DIR)
			links[records[i].number]++;
	for (uint32_t i = 0; i < n; i++)
		if (records[i].type != MEMBER_DIR)
			records[i].n_links = links[records[i].number];
}

int archive_sort_count(struct archive_record *records, uint32_t n, uint32_t n_numbers,
		       struct archive_counts *counts, struct error *err)
{
	_cleanup_(freep) uint32_t *links = NULL;

	if (n_numbers > 0) {
		links = calloc((size_t)n_numbers + 1, sizeof(*links));
		if (!links)
			return refuse_memory(err);
	}
	for (uint32_t i = 0; i < n; i++)
		count_record(records, i, counts);
	counts->n_records = n;
	if (links)
		set_links(records, n, links);
	return 0;
}
