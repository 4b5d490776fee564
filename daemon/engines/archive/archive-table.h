/*
 * archive-table: the entries of an archive's index while members are added (archive-index.h), found
 * by a hash of their directory and name. Its memory is reserved before it is used. The hash has a
 * secret key, because an attacker may have made the archive so that all names are in one chain.
 * Until archive_table_finish(), n_links of a record is the next record in its chain.
 */
#pragma once

#include <stdint.h>

#include "common/util/siphash.h"
#include "daemon/engines/archive/archive-index.h"

/* Whole pages of its own, as the heap would keep what is left behind by an array that has grown. */
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
	struct siphash_key key;
	/* A directory whose entries came one after the other, sorted; NONE: there is none. All that
	 * it has is in there, so a larger name is not looked for. */
	uint32_t run_parent, run_last;
	archive_index_reserve_fn reserve; /* NULL: nobody is asked */
	void *arg;
	uint64_t reserved;
};

/* 0, or why there is no key. */
int archive_table_init(struct archive_table *t, struct error *err);
void archive_table_deinit(struct archive_table *t);

/* ARCHIVE_INDEX_NONE: there is none. n: at most MEMBER_MAX_NAME. */
uint32_t archive_table_find(const struct archive_table *t, uint32_t parent, const char *name,
			    size_t n);

/* The entry is *rec, whose name and name_size are set here. -ENOMEM, -EFBIG, and what reserve says.
 */
int archive_table_add(struct archive_table *t, const struct archive_record *rec, const char *name,
		      size_t n, uint32_t *ip, struct error *err);
/* A text of n bytes and a NUL. The same. */
int archive_table_add_text(struct archive_table *t, const char *text, size_t n, uint64_t *atp,
			   struct error *err);

int archive_table_add_piece(struct archive_table *t, uint64_t pos, uint64_t at, struct error *err);

/* So many bytes are reserved at once, if they are not yet. */
int archive_table_reserve(struct archive_table *t, uint64_t bytes, struct error *err);

/* All are added: nothing can be found any more, and n_links is free for what follows. */
void archive_table_finish(struct archive_table *t);
