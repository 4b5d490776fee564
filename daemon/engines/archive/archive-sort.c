/*
 * Lists of entries are merged, because this needs only one number for each entry. The field n_links
 * is used for it, which is not needed yet. Then each entry is moved to its place.
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
	SORT_LISTS = 32,      /* lists of one entry, two, four, … */
	SORT_CHECK = 1 << 16, /* comparisons between two checks for a cancellation */
};

/* A list is the number of its first entry. n_links of each entry is the number of the next one. */
struct sorter {
	struct archive_record *records;
	const char *texts;
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

/* Sorts all entries except the root. */
static uint32_t sort(struct sorter *s, uint32_t n)
{
	uint32_t lists[SORT_LISTS], all = ARCHIVE_INDEX_NONE;
	size_t k;

	memset(lists, 0xff, sizeof(lists)); /* ARCHIVE_INDEX_NONE */
	for (uint32_t i = ARCHIVE_INDEX_ROOT + 1; i < n && !s->is_cancelled; i++) {
		uint32_t list = i;

		s->records[i].n_links = ARCHIVE_INDEX_NONE;
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

/* Numbers the entries of a list by their places. */
static void number_list(struct archive_record *records, uint32_t i)
{
	uint32_t place = ARCHIVE_INDEX_ROOT, next;

	records[ARCHIVE_INDEX_ROOT].n_links = place++;
	for (; i != ARCHIVE_INDEX_NONE; i = next) {
		next = records[i].n_links;
		records[i].n_links = place++;
	}
}

static void move_all(struct archive_record *records, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		while (records[i].n_links != i) {
			struct archive_record *to = &records[records[i].n_links], there = *to;

			*to = records[i];
			records[i] = there;
		}
	}
}

int archive_sort(struct archive_record *records, uint32_t n, const char *texts, struct stage_io *io,
		 struct error *err)
{
	struct sorter s = { .records = records, .texts = texts, .io = io };
	uint32_t list = sort(&s, n);

	if (s.is_cancelled)
		return stage_io_check(io, err);
	number_list(records, list);
	for (uint32_t i = 0; i < n; i++)
		records[i].parent = records[records[i].parent].n_links;
	move_all(records, n);
	for (uint32_t i = 0; i < n; i++)
		records[i].n_links = 0;
	return 0;
}

/* Sets the range of each directory's entries, and its number of links, as in other file systems. */
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

/* Sizes of sparse files have almost no limit, so the sum is limited. */
static void add_bytes(struct archive_counts *c, uint64_t n)
{
	c->bytes = n < UINT64_MAX - c->bytes ? c->bytes + n : UINT64_MAX;
}

static void count_records(const struct archive_record *records, uint32_t n,
			  struct archive_counts *c)
{
	for (uint32_t i = 0; i < n; i++) {
		if (records[i].type == MEMBER_DIR)
			continue;
		c->n_files++;
		c->n_deflated += records[i].is_deflated;
		c->n_summed += records[i].packed > 0 && !records[i].is_deflated &&
			       !records[i].is_sparse;
		if (records[i].type == MEMBER_FILE)
			add_bytes(c, records[i].size);
	}
	c->n_records = n;
}

/* links: NULL, or an array with room for each number. */
static void set_links(struct archive_record *records, uint32_t n, uint32_t *links)
{
	for (uint32_t i = 0; i < n && links; i++)
		if (records[i].type != MEMBER_DIR)
			links[records[i].number]++;
	for (uint32_t i = 0; i < n; i++)
		if (records[i].type != MEMBER_DIR)
			records[i].n_links = links ? links[records[i].number] : 1;
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
	set_ranges(records, n);
	count_records(records, n, counts);
	set_links(records, n, links);
	return 0;
}
