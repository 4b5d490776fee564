#include "daemon/engines/archive/archive-sort.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/archive-index.h"

struct names {
	const struct archive_record *records;
	const char *texts;
};

static int refuse_memory(struct error *err)
{
	return error_set(err, ENOMEM, "no memory for the index of the archive");
}

static int compare(const void *a, const void *b, void *arg)
{
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct names *x = arg;
	const struct archive_record *v = &x->records[i], *w = &x->records[k];

	if (i == ARCHIVE_INDEX_ROOT || k == ARCHIVE_INDEX_ROOT)
		return i == k ? 0 : i == ARCHIVE_INDEX_ROOT ? -1 : 1;
	if (v->parent != w->parent)
		return v->parent < w->parent ? -1 : 1;
	return strcmp(x->texts + v->name, x->texts + w->name);
}

int archive_sort(struct archive_record **recordsp, uint32_t n, uint32_t *places, const char *texts,
		 struct error *err)
{
	_cleanup_(freep) uint32_t *order = malloc(n * sizeof(*order));
	struct archive_record *old = *recordsp, *sorted = malloc(n * sizeof(*sorted));
	struct names names = { old, texts };

	if (!order || !sorted) {
		free(sorted);
		return refuse_memory(err);
	}
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), compare, &names);
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = old[order[i]];
	for (uint32_t i = 0; i < n; i++)
		places[order[i]] = i;
	for (uint32_t i = 0; i < n; i++)
		sorted[i].parent = places[sorted[i].parent];
	free(old);
	*recordsp = sorted;
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
