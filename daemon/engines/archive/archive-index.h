/*
 * archive-index: the tree of an archive's members without their content, which is needed to mount
 * the archive. Pure: it reads no file.
 *
 * The tree is the one that extraction makes (tree.h, untar-levels.h), and the same members are
 * refused: names that lead out, members below a link or a file, hard links to what did not come
 * before. If several members have the same name, the last one is used. The earlier ones take
 * memory, too: 4 bytes each, and the text of a link. If this needs more than 64 MiB, the archive is
 * refused (-EFBIG).
 *
 * After archive_index_finish() it does not change, and any number of threads may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/dataset/member-path.h"
#include "common/util/cleanup.h"
#include "daemon/engines/archive/decode.h"

struct archive_index;
struct error;
struct stage_io;

#define ARCHIVE_INDEX_ROOT 0u
#define ARCHIVE_INDEX_NONE UINT32_MAX
#define ARCHIVE_INDEX_TEXTS ((UINT64_C(1) << 40) - 1) /* no memory has room for more */

/* One entry of the tree. A directory's entries lie together, sorted by name. */
struct archive_record {
	uint64_t name : 40;	/* in the texts, NUL-terminated */
	uint64_t name_size : 8; /* without the NUL */
	uint64_t mode : 9;	/* permission bits */
	uint64_t type : 3;	/* MEMBER_FILE, MEMBER_DIR or MEMBER_SYMLINK */
	uint64_t is_deflated : 1;
	uint64_t is_sparse : 1;
	uint64_t start : 48;  /* file: of the data in the archive; link: of its text in the texts;
			       * directory: number of its first entry */
	uint64_t packed : 48; /* file of a zip: bytes in the archive; sparse: number of its first
			       * piece */
	uint64_t mtime_ns : 30;
	uint64_t size; /* of the data or text; directory: how many entries it has */
	int64_t mtime;
	uint32_t parent;  /* the root is its own */
	uint32_t number;  /* from 1 on; hard links share it */
	uint32_t n_links; /* until the index is finished: see archive-index.c */
	uint32_t crc;	  /* file of a zip: of the data; sparse: how many pieces it has */
} __attribute__((packed, aligned(4)));
#define ARCHIVE_INDEX_OFFSETS ((UINT64_C(1) << 48) - 1)

/* A piece of a sparse file, between two holes. One more, behind the last, is at the file's end. */
struct archive_piece {
	uint64_t pos; /* in the file */
	uint64_t at;  /* bytes in the archive after the beginning of the file's data */
};

/* That an entry takes at any time, beside its name. What each takes as long as members are added is
 * 56 bytes, 4 for the hash table and a NUL; and 4 for the links of hard links at the end. A sparse
 * file takes its pieces in addition. */
#define ARCHIVE_INDEX_ENTRY 64u
_Static_assert(sizeof(struct archive_record) + 4 + 1 <= ARCHIVE_INDEX_ENTRY, "what is promised");

struct archive_counts {
	uint64_t n_files;    /* and links */
	uint64_t n_records;  /* directories, too */
	uint64_t n_deflated; /* files */
	uint64_t n_summed;   /* files of zips that are not deflated, and not empty */
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

/* Asked before more memory is taken. 0, or -errno, which archive_index_add() returns. */
typedef int (*archive_index_reserve_fn)(void *arg, uint64_t bytes, struct error *err);

/* Before members are added. What is reserved in steps is up to an eighth more than is taken. */
void archive_index_set_reserve(struct archive_index *x, archive_index_reserve_fn reserve,
			       void *arg);
/* So many entries with so many bytes of text are to come: reserved at once. */
int archive_index_expect(struct archive_index *x, uint64_t n, uint64_t text_size,
			 struct error *err);

/* Where a member of that name goes: see archive_index_go_to(). -EINVAL and -ENAMETOOLONG as by
 * member_path_clean(). */
int archive_index_get_path(const struct archive_index *x, const char *name,
			   char buf[static MEMBER_PATH_SIZE], struct error *err);
/* Members go below that directory, "" for the top, until the next call. dir is lent. */
void archive_index_go_to(struct archive_index *x, const char *dir);
/* The same, for the members of m, an archive; the directory is made where it is missing. */
int archive_index_open(struct archive_index *x, const char *dir, const struct member *m,
		       struct error *err);

/* A piece of the sparse file that is added next, by archive_index_add(); in their order, see
 * untar-sparse.h. */
int archive_index_add_piece(struct archive_index *x, uint64_t pos, uint64_t size,
			    struct error *err);
/* Those that were added for it, and how many, without one at the end; lent until the next call. How
 * many bytes they have. */
uint64_t archive_index_get_new_pieces(const struct archive_index *x,
				      const struct archive_piece **piecesp, size_t *np);

/* start: where the member's data begins in the archive. After a failure x can only be freed. */
int archive_index_add(struct archive_index *x, const struct member *m, uint64_t start,
		      struct error *err);
/* All members are added. Before that nothing below may be called. io (NULL: none) may cancel it. */
int archive_index_finish(struct archive_index *x, struct stage_io *io, struct error *err);

void archive_index_get_counts(const struct archive_index *x, struct archive_counts *counts);
/* NULL: there is no such entry. */
const struct archive_record *archive_index_get(const struct archive_index *x, uint64_t i);
const char *archive_index_get_text(const struct archive_index *x, uint64_t at);
/* Of a sparse file: rec->crc of them, and the one at its end. */
const struct archive_piece *archive_index_get_pieces(const struct archive_index *x,
						     const struct archive_record *rec);
/* The entry of that name in a directory, or ARCHIVE_INDEX_NONE. */
uint32_t archive_index_find(const struct archive_index *x, const struct archive_record *dir,
			    const char *name);
