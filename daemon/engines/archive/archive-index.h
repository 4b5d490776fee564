/*
 * archive-index: the tree that an archive's members make, without their content: what has to be
 * known to mount the archive. Pure: it reads no file.
 *
 * The tree is the one that extraction makes (tree.h, untar-levels.h), and the same members are
 * refused: names that lead out, members below a link or a file, hard links to what did not come
 * before. Of several members with one name the last counts. Those before it take memory, too: 4
 * bytes each, and the text of a link. More than 64 MiB of that are refused (-EFBIG).
 *
 * After archive_index_finish() it does not change, apart from what is known about the content, and
 * any number of threads may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/util/cleanup.h"
#include "daemon/engines/archive/decode.h"

struct archive_index;
struct error;
struct stage_io;

#define ARCHIVE_INDEX_ROOT 0u
#define ARCHIVE_INDEX_NONE UINT32_MAX
#define ARCHIVE_INDEX_TEXTS ((UINT64_C(1) << 40) - 1) /* no memory has room for more */

/* One entry of the tree, at most 64 bytes beside its name. A directory's entries lie together,
 * sorted by name. */
struct archive_record {
	uint64_t name : 40;	/* in the texts, NUL-terminated */
	uint64_t name_size : 8; /* without the NUL */
	uint64_t mode : 9;	/* permission bits */
	uint64_t type : 3;	/* MEMBER_FILE, MEMBER_DIR or MEMBER_SYMLINK */
	uint64_t is_deflated : 1;
	uint64_t start;	 /* file: of the data in the archive; link: of its text in the texts;
			  * directory: number of its first entry */
	uint64_t size;	 /* of the data or text; directory: how many entries it has */
	uint64_t packed; /* file of a zip: bytes in the archive */
	int64_t mtime;
	uint32_t mtime_ns;
	uint32_t parent; /* the root is its own */
	uint32_t number; /* from 1 on; hard links share it */
	uint32_t n_links;
	uint32_t crc;		 /* file of a zip: of the data */
	_Atomic uint8_t content; /* 0, or what archive_index_set_content() was told */
};
_Static_assert(sizeof(struct archive_record) <= 64, "the bound that is promised");

struct archive_counts {
	uint64_t n_files;    /* and links */
	uint64_t n_records;  /* directories, too */
	uint64_t n_deflated; /* files */
	uint64_t n_replaced; /* names that came again */
	uint64_t n_absolute; /* names that lost the slash in front */
	uint64_t bytes;	     /* of content; of hard links once for each */
	uint64_t memory;     /* that the index takes */
};

/* mtime: of directories that have no member of their own. -ENOMEM, or why
 * there is no key for its hash. */
int archive_index_new(struct archive_index **xp, int64_t mtime, struct error *err);
void archive_index_free(struct archive_index *x);
DEFINE_FREEP(struct archive_index, archive_index_free)

/* start: where the member's data begins in the archive. After a failure x can only be freed. */
int archive_index_add(struct archive_index *x, const struct member *m, uint64_t start,
		      struct error *err);
/* All members are added. Before that nothing below may be called. io (NULL: none) may cancel it. */
int archive_index_finish(struct archive_index *x, struct stage_io *io, struct error *err);

void archive_index_get_counts(const struct archive_index *x, struct archive_counts *counts);
/* NULL: there is no such entry. */
const struct archive_record *archive_index_get(const struct archive_index *x, uint64_t i);
/* What its readers found out about a file's content, in their words. i is one. */
void archive_index_set_content(struct archive_index *x, uint64_t i, uint8_t content);
const char *archive_index_get_text(const struct archive_index *x, uint64_t at);
/* The entry of that name in a directory, or ARCHIVE_INDEX_NONE. */
uint32_t archive_index_find(const struct archive_index *x, const struct archive_record *dir,
			    const char *name);
