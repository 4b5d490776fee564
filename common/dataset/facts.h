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

/* The format of a file, by its first bytes and never by its name. */
enum facts_format {
	FORMAT_PLAIN, /* nothing we know how to open: a file */
	FORMAT_TAR,
	FORMAT_ZIP,
	FORMAT_SQUASHFS,
};

/* The compression around it. */
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
	FILTER_LZO, /* which is known, and not unpacked */
};

struct magic_other;

#define FACTS_LINK_SIZE 512
#define FACTS_LINKS_OUT_SIZE (FACTS_LINK_SIZE + 128)

struct facts {
	enum source_kind kind;
	enum facts_format format;
	enum facts_filter filter;
	enum facts_format promise; /* what its name says; FORMAT_PLAIN: nothing */

	const struct magic_other
		*other; /* of FORMAT_PLAIN: what it is in the place of an archive; NULL */

	uint64_t bytes;	  /* of the source: the measure of progress */
	uint64_t n_files; /* of the source; for an archive 0: not known */

	/* The space that it needs: unchanged (copy), and extracted. */
	uint64_t copy_bytes, copy_files;
	uint64_t extract_bytes, extract_files; /* estimates; files 0: not known */
	bool extract_exact;		       /* read from the archive's own index */

	bool is_remote; /* from the web: can be fetched, and neither mounted in place nor linked to
			 */
	uint64_t print; /* with keep=: of names, sizes and times in a directory or set, all of it */
	/* Links in a directory or set that lead out of it, and one of them with its text. Counted
	 * where nothing is copied, or perhaps nothing: explain, keep=. */
	uint64_t n_links_out;
	char link_out[FACTS_LINK_SIZE];
	bool counted; /* bytes and n_files of a directory are complete, not cut by the limit */
};

const char *facts_format_to_string(enum facts_format f); /* "plain", "tar", "zip", "squashfs" */
const char *facts_filter_to_string(enum facts_filter f); /* "", "gzip", "zstd", … */
const char *facts_kind_to_string(enum source_kind k);	 /* "file" or "dir", as in messages */

/* The sentence about links that lead out. first: "a/b -> /c", as the next one writes it. Both
 * return buf. */
const char *facts_print_links_out(uint64_t n, const char *first,
				  char buf[static FACTS_LINKS_OUT_SIZE]);
const char *facts_print_link(const char *path, const char *to, char buf[static FACTS_LINK_SIZE]);

/* An archive that `extract` can open into a directory. */
bool facts_is_archive(const struct facts *f);
