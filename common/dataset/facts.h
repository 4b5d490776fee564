/*
 * facts: the facts about a source that are known before anything is made. Plain data: probe.c fills
 * it, plan.c uses it to decide, stagers read it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The type of the source. */
enum source_kind {
	SOURCE_FILE,
	SOURCE_DIR,
	SOURCE_SET, /* a pattern, braces or a list: many files, staged into one directory */
};

/* The format of a file, determined from its first bytes and not from its name. */
enum facts_format {
	FORMAT_PLAIN, /* any other file */
	FORMAT_TAR,
	FORMAT_ZIP,
	FORMAT_SQUASHFS,
};

/* The compression of the file. */
enum facts_filter {
	FILTER_NONE,
	FILTER_GZIP,
	FILTER_ZSTD,
	FILTER_LZ4,
	FILTER_XZ,
	FILTER_BZIP2,
	FILTER_LZMA,
	FILTER_LZIP,
	FILTER_COMPRESS,
	FILTER_LZO, /* recognised, but not supported */
};

struct magic_unexpected;

#define FACTS_LINK_SIZE 512
#define FACTS_LINKS_OUT_SIZE (FACTS_LINK_SIZE + 128)

struct facts {
	enum source_kind kind;
	enum facts_format format;
	enum facts_filter filter;
	enum facts_format promise; /* format according to the file name; FORMAT_PLAIN: none */

	const struct magic_unexpected
		/* for FORMAT_PLAIN, the other known file type; NULL: none */
		*other;

	uint64_t bytes;	  /* of the source; the total of the progress */
	uint64_t n_files; /* of the source; 0 for an archive: not known */

	/* The space needed for a copy, and for the extracted content. */
	uint64_t copy_bytes, copy_files;
	uint64_t extract_bytes, extract_files; /* estimates; extract_files 0: not known */
	bool extract_exact;		       /* the extract_* values come from the archive's
					        * index */

	/* from the web: must be downloaded, so it cannot be mounted in place or linked */
	bool is_remote;
	uint64_t print; /* with keep=: fingerprint of all names, sizes and times in a directory or
			 * set */
	/* The number of links in a directory or set that lead out of it, and one of them with its
	 * target. Counted if nothing is copied, or perhaps nothing: for explain and keep=. */
	uint64_t n_links_out;
	char link_out[FACTS_LINK_SIZE];
	bool counted; /* bytes and n_files of a directory are complete: counting did not reach its
		       * limit */
};

const char *facts_format_to_string(enum facts_format f); /* "plain", "tar", "zip", "squashfs" */
const char *facts_filter_to_string(enum facts_filter f); /* "", "gzip", "zstd", … */
const char *facts_kind_to_string(enum source_kind k);	 /* "file" or "dir", as in messages */

/* Writes the sentence about links that lead out. first: "a/b -> /c", made by facts_print_link().
 * Both functions return buf. */
const char *facts_print_links_out(uint64_t n, const char *first,
				  char buf[static FACTS_LINKS_OUT_SIZE]);
const char *facts_print_link(const char *path, const char *to, char buf[static FACTS_LINK_SIZE]);

/* Returns whether the source is an archive that `extract` can unpack into a directory. */
bool facts_is_archive(const struct facts *f);
