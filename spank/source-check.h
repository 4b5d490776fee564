/*
 * source-check: checks the sources at submission. A file system that hangs cannot hang it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dataset_list;

#define SOURCE_CHECK_LIMIT_MS 3000

enum {
	SOURCE_CHECK_OK,
	SOURCE_CHECK_HANGS, /* the source *indexp did not answer; the sources after it were not
			     * checked */
};

/* Results for patterns, in addition to errno values. END_MISSING: the first or the last of the
 * names that braces make does not exist. */
enum {
	SOURCE_CHECK_FITS_NONE = 10001,
	SOURCE_CHECK_END_MISSING,
	SOURCE_CHECK_IS_NAME,	      /* a file is named exactly like the pattern */
	SOURCE_CHECK_IS_NAME_OF_MANY, /* and other files match the pattern */
};

struct source_check_result {
	size_t index;
	const char *path; /* the path that was checked; for a pattern with matches, its top
			   * directory */
	size_t n_fault;	  /* length of the faulty part of path: all of it, or a directory above */
	int errnum;	  /* 0: it exists and is readable */
	uint64_t bytes;	  /* size of a single file without holes; else 0 */
};

/* Called for each source that was checked. */
typedef void (*source_check_report)(void *arg, const struct source_check_result *result);

/* Checks, as the caller and in a child process, whether files, directories and lists exist and are
 * readable, and whether files match a pattern. Skips web addresses and catalogue names. Returns
 * SOURCE_CHECK_*, or -errno if nothing could be checked. */
int source_check(const struct dataset_list *list, unsigned limit_ms, size_t *indexp,
		 source_check_report report, void *arg);

/* Writes the path to check for an item: its source, or the directory above a pattern; "" for none.
 * Public for tests. */
struct dataset;
void source_check_path(const struct dataset *d, char *buf, size_t size);
