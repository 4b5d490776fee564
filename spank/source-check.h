/*
 * source-check: a look at the sources at submission, which a hung file system can't hang.
 */
#pragma once

#include <stddef.h>

struct dataset_list;

#define SOURCE_CHECK_LIMIT_MS 3000

enum {
	SOURCE_CHECK_OK,
	SOURCE_CHECK_HANGS,   /* *indexp did not answer; what is behind it was not looked at */
};

/* Called for each source that is missing or can't be read. path: what was looked at, of which the first
 * n_fault bytes are at fault: all of it, or a directory on the way. */
typedef void (*source_check_report)(void *arg, size_t index, const char *path, size_t n_fault,
				    int errnum);

/*
 * Looks, as the caller and in a child process, whether files, directories and lists are there
 * and may be read; of a pattern only the directory above it. URLs and catalogue names are left
 * alone. SOURCE_CHECK_*, or -errno when there could be no look.
 */
int source_check(const struct dataset_list *list, unsigned limit_ms, size_t *indexp,
		 source_check_report report, void *arg);

/* The path to look at for an item: its source, or the directory above a pattern; "" for none.
 * For tests. */
struct dataset;
void source_check_path(const struct dataset *d, char *buf, size_t size);
