/*
 * archive-index: the tree of an archive's members without their content, which is needed to mount
 * the archive. Pure: it reads no file.
 *
 * The tree is the one that extraction makes (tree.h, untar-extract.h), and the same members are
 * refused: names that lead out, members below a link or a file, hard links to members that do not
 * come before them. If several members have the same name, the last one is used. The earlier ones
 * take memory, too: 4 bytes each, and the text of a link. If this needs more than 64 MiB, the
 * archive is refused (-EFBIG).
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
#define ARCHIVE_INDEX_TEXTS ((UINT64_C(1) << 40) - 1) /* maximum size of all texts */

/* One entry of the tree. The entries of a directory are contiguous and sorted by name. */
struct archive_record {
	uint64_t name : 40;	/* offset in the texts; NUL-terminated there */
	uint64_t name_size : 8; /* without the NUL */
	uint64_t mode : 9;	/* permission bits */
	uint64_t type : 3;	/* MEMBER_FILE, MEMBER_DIR or MEMBER_SYMLINK */
	uint64_t is_deflated : 1;
	uint64_t is_sparse : 1;
	uint64_t is_unsorted : 1; /* directory, until the index is finished: its entries were not
				   * added in the order of their names */
	uint64_t start : 48;	  /* file: offset of the data in the archive; link: offset of its
			       * target in the texts; directory: number of its first entry */
	uint64_t packed : 48;	  /* file of a zip: bytes in the archive; sparse file: number of its
			       * first piece */
	uint64_t mtime_ns : 30;
	uint64_t size; /* of the data or target; directory: number of entries */
	int64_t mtime;
	uint32_t parent;  /* number of the parent; the root's parent is the root */
	uint32_t number;  /* 1 or more; hard links have the same number */
	uint32_t n_links; /* until the index is finished: see archive-table.h */
	uint32_t crc;	  /* file of a zip: checksum of the data; sparse file: number of pieces */
} __attribute__((packed, aligned(4)));
#define ARCHIVE_INDEX_OFFSETS ((UINT64_C(1) << 48) - 1)

/* A piece of a sparse file between two holes. After the last piece, there is one more, which begins
 * at the file's end. */
struct archive_piece {
	uint64_t pos; /* in the file */
	uint64_t at;  /* bytes in the archive after the beginning of the file's data */
};

/* Bytes that an entry takes, in addition to its name. While members are added, an entry takes 56
 * bytes, 4 for the hash table and a NUL; at the end, 4 bytes for counting hard links. A sparse file
 * also takes memory for its pieces. */
#define ARCHIVE_INDEX_ENTRY 64u
_Static_assert(sizeof(struct archive_record) + 4 + 1 <= ARCHIVE_INDEX_ENTRY, "what is promised");

struct archive_counts {
	uint64_t n_files;    /* files and links */
	uint64_t n_records;  /* all entries, including directories */
	uint64_t n_deflated; /* deflated files */
	uint64_t n_summed;   /* files of zips that are neither deflated nor empty */
	uint64_t n_replaced; /* names that were added more than once */
	uint64_t n_absolute; /* names whose leading slash was removed */
	uint64_t bytes;	     /* content in bytes; that of a hard link counts for each name */
	uint64_t memory;     /* bytes that the index takes */
};

/* mtime: time of directories that are not members themselves. Returns 0, -ENOMEM, or why no key for
 * the hash is available. */
int archive_index_new(struct archive_index **xp, int64_t mtime, struct error *err);
void archive_index_free(struct archive_index *x);
DEFINE_FREEP(struct archive_index, archive_index_free)

/* Called before more memory is taken. Returns 0, or -errno, which archive_index_add() returns. */
typedef int (*archive_index_reserve_fn)(void *arg, uint64_t bytes, struct error *err);

/* Must be called before members are added. Memory is reserved in steps, up to an eighth more than
 * is used. */
void archive_index_set_reserve(struct archive_index *x, archive_index_reserve_fn reserve,
			       void *arg);
/* Reserves memory for n entries with text_size bytes of text. */
int archive_index_expect(struct archive_index *x, uint64_t n, uint64_t text_size,
			 struct error *err);

/* Writes the path at which a member with this name is added; see archive_index_go_to(). -EINVAL and
 * -ENAMETOOLONG: see member_path_clean(). */
int archive_index_get_path(const struct archive_index *x, const char *name,
			   char buf[static MEMBER_PATH_SIZE], struct error *err);
/* Adds the next members below the directory dir, "" for the top, until the next call. dir is
 * lent. */
void archive_index_go_to(struct archive_index *x, const char *dir);
/* Does the same for the members of m, which is an archive. Makes the directory if it is missing. */
int archive_index_open(struct archive_index *x, const char *dir, const struct member *m,
		       struct error *err);

/* Adds a piece of the sparse file that the next archive_index_add() adds. Pieces come in their
 * order; see untar-sparse.h. */
int archive_index_add_piece(struct archive_index *x, uint64_t pos, uint64_t size,
			    struct error *err);
/* Gets the pieces that were added for this file, without the one at its end, and their number. They
 * are lent until the next call. Returns their size in bytes. */
uint64_t archive_index_get_new_pieces(const struct archive_index *x,
				      const struct archive_piece **piecesp, size_t *np);

/* Adds a member. start: offset of its data in the archive. After a failure, x can only be freed. */
int archive_index_add(struct archive_index *x, const struct member *m, uint64_t start,
		      struct error *err);
/* Must be called after all members were added, and before the functions below. io (NULL: none) may
 * cancel it. */
int archive_index_finish(struct archive_index *x, struct stage_io *io, struct error *err);

void archive_index_get_counts(const struct archive_index *x, struct archive_counts *counts);
/* Returns an entry; NULL: there is none with this number. */
const struct archive_record *archive_index_get(const struct archive_index *x, uint64_t i);
const char *archive_index_get_text(const struct archive_index *x, uint64_t at);
/* Returns the pieces of a sparse file: rec->crc pieces, and the one at its end. */
const struct archive_piece *archive_index_get_pieces(const struct archive_index *x,
						     const struct archive_record *rec);
/* Returns the entry with this name in a directory, or ARCHIVE_INDEX_NONE. */
uint32_t archive_index_find(const struct archive_index *x, const struct archive_record *dir,
			    const char *name);
