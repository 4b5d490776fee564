/*
 * archive-table: the entries of an archive's index while members are added (archive-index.h), found
 * by a hash of their directory and name. Its memory is reserved before it is used. The hash has a
 * secret key, because an attacker may have made the archive so that all names are in one chain.
 *
 * Most archives have the entries of a directory in the order of their names. In such a directory, a
 * name after that of the last entry is new, so it is not looked up. Entries come into the hash when
 * a name has to be looked up.
 *
 * While entries are added, some fields of records have another meaning:
 * - n_links of an entry is the next one in its chain of the hash.
 * - size of a directory is the number of the entry that was added to it last; 0: there is none.
 */
#pragma once

#include <stdint.h>

#include "common/util/siphash.h"
#include "daemon/engines/archive/archive-index.h"

/* An array with its own pages. The heap would not return the memory of an array that has grown. */
struct archive_array {
	void *data;
	size_t size;
};

struct archive_table {
	struct archive_record *records; /* in record_array */
	uint32_t n, room;
	char *texts; /* in text_array */
	uint64_t n_texts;
	struct archive_piece *pieces; /* in piece_array */
	uint64_t n_pieces;
	struct archive_array record_array, text_array, bucket_array, piece_array;
	uint32_t n_buckets; /* a power of two */
	uint32_t n_hashed;  /* entries that are in the hash; 0: the buckets are not valid */
	struct siphash_key key;
	archive_index_reserve_fn reserve; /* NULL: memory is not reserved */
	void *arg;
	uint64_t reserved;
};

/* Returns 0, or why no key for the hash is available. */
int archive_table_init(struct archive_table *t, struct error *err);
void archive_table_deinit(struct archive_table *t);

/* Returns the number of an entry, or ARCHIVE_INDEX_NONE. n: size of the name, at most
 * MEMBER_MAX_NAME. */
uint32_t archive_table_find(struct archive_table *t, uint32_t parent, const char *name, size_t n);

/* Adds *rec as an entry with this name; name and name_size are set here. Returns 0, -ENOMEM,
 * -EFBIG, or what reserve returns. */
int archive_table_add(struct archive_table *t, const struct archive_record *rec, const char *name,
		      size_t n, uint32_t *ip, struct error *err);
/* Adds a text of n bytes and a NUL. Returns as archive_table_add() does. */
int archive_table_add_text(struct archive_table *t, const char *text, size_t n, uint64_t *atp,
			   struct error *err);

int archive_table_add_piece(struct archive_table *t, uint64_t pos, uint64_t at, struct error *err);

/* Reserves bytes, unless they are reserved already. */
int archive_table_reserve(struct archive_table *t, uint64_t bytes, struct error *err);

/* Must be called after all entries were added. After that, nothing can be found, and n_links may be
 * used. size and is_unsorted of directories stay as they are. */
void archive_table_finish(struct archive_table *t);

/* Moves each entry to the place whose number is in its n_links. */
void archive_table_move(struct archive_table *t);
