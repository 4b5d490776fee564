/*
 * archive-sort: the last step of an index (archive-index.h). It sorts the entries by directory and
 * name, and sets the fields that depend on all entries.
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
