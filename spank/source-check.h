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
	SOURCE_CHECK_HANGS, /* *indexp did not answer; what is behind it was not looked at */
};

/* Of patterns, beside errno's: no file fits; of names made by braces alone, the first or the last
 * is missing. */
enum {
	SOURCE_CHECK_FITS_NONE = 10001,
	SOURCE_CHECK_END_MISSING,
	SOURCE_CHECK_IS_NAME,	      /* a file is named exactly like the pattern */
	SOURCE_CHECK_IS_NAME_OF_MANY, /* and others fit the pattern */
};

struct source_check_result {
	size_t index;
	const char *path; /* what was looked at; of a pattern that is there the directory above */
	size_t n_fault; /* bytes of it that are at fault: all, or those of a directory on the way */
	int errnum;	/* 0: it is there and may be read */
	uint64_t bytes; /* of one file that is there, without holes; else 0 */
};

/* Called for each source that was looked at. */
typedef void (*source_check_report)(void *arg, const struct source_check_result *result);

/*
 * Looks, as the caller and in a child process, whether files, directories and lists are there
 * and may be read, and whether a file fits a pattern. URLs and catalogue names are left
 * alone. SOURCE_CHECK_*, or -errno when there could be no look.
 */
int source_check(const struct dataset_list *list, unsigned limit_ms, size_t *indexp,
		 source_check_report report, void *arg);

/* The path to look at for an item: its source, or the directory above a pattern; "" for none.
 * For tests. */
struct dataset;
void source_check_path(const struct dataset *d, char *buf, size_t size);
