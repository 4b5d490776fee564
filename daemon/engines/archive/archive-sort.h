/*
 * archive-sort: the last step of an index (archive-index.h): its entries are sorted by directory
 * and name, and what follows from all of them is set.
 */
#pragma once

#include <stdint.h>

struct archive_counts;
struct archive_record;
struct error;
struct stage_io;

/* Entries in their order, in place. io (NULL: none) may cancel it: after -ECANCELED the records can
 * only be freed. */
int archive_sort(struct archive_record *records, uint32_t n, const char *texts, struct stage_io *io,
		 struct error *err);

/* Sets ranges of directories and numbers of links of n sorted entries, whose own numbers are
 * n_numbers at most; 0: none is a hard link. counts gets all but what is counted while members are
 * added, and the memory. 0 or -ENOMEM. */
int archive_sort_count(struct archive_record *records, uint32_t n, uint32_t n_numbers,
		       struct archive_counts *counts, struct error *err);
