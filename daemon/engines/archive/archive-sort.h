/*
 * archive-sort: the last step of an index (archive-index.h). It sorts the entries by directory and
 * name, and sets the fields that depend on all entries.
 */
#pragma once

#include <stdint.h>

struct archive_counts;
struct archive_record;
struct archive_table;
struct error;
struct stage_io;

/* Sorts the entries of a finished table, and sets the ranges of directories. io (NULL: none) may
 * cancel this. After -ECANCELED the records can only be freed. */
int archive_sort(struct archive_table *t, struct stage_io *io, struct error *err);

/* Sets the numbers of links of n sorted entries. n_numbers: the highest number of an entry; 0:
 * there are no hard links. Sets all fields of counts except memory and those that are counted while
 * members are added. Returns 0 or -ENOMEM. */
int archive_sort_count(struct archive_record *records, uint32_t n, uint32_t n_numbers,
		       struct archive_counts *counts, struct error *err);
