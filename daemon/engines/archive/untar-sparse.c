#include "daemon/engines/archive/untar-sparse.h"

#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "daemon/engines/archive/pax-records.h"

enum {
	TABLE_FIELD = 12,
	TABLE_ENTRY = 2 * TABLE_FIELD,
	/* offset of the entries in a header */
	HEADER_ENTRIES_AT = 386,
	HEADER_ENTRIES = 4,
	HEADER_MORE_AT = 482,
	HEADER_SIZE_AT = 483,
	/* entries in a block after the header */
	BLOCK_ENTRIES = 21,
	BLOCK_MORE_AT = 504,
	TEXT_DIGITS = 18,
};

#define SPARSE_MAX_SIZE (UINT64_C(1) << 60) /* no file system has room for a larger file */

static bool is_key(const struct pax_record *rec, const char *name)
{
	const size_t n = strlen(UNTAR_SPARSE_PREFIX);

	return rec->key_size == n + strlen(name) && !memcmp(rec->key + n, name, strlen(name));
}

static bool is_value(const struct pax_record *rec, const char *value)
{
	return rec->value_size == strlen(value) && !memcmp(rec->value, value, rec->value_size);
}

static bool set_kind(struct untar_sparse *s, enum untar_sparse_kind kind)
{
	if (s->kind != UNTAR_SPARSE_NONE && s->kind != kind)
		return false;
	s->kind = kind;
	return true;
}

static bool set_size(struct untar_sparse *s, uint64_t size)
{
	if (s->has_size || size > SPARSE_MAX_SIZE)
		return false;
	s->has_size = true;
	s->size = size;
	return true;
}

bool untar_sparse_take_record(struct untar_sparse *s, const struct pax_record *rec)
{
	uint64_t n;

	if (is_key(rec, "size") || is_key(rec, "realsize"))
		return set_kind(s,
				is_key(rec, "size") ? UNTAR_SPARSE_RECORDS : UNTAR_SPARSE_TEXT) &&
		       pax_read_digits(rec->value, rec->value_size, &n) && set_size(s, n);
	if (is_key(rec, "major")) {
		s->has_major = true;
		return set_kind(s, UNTAR_SPARSE_TEXT) && is_value(rec, "1");
	}
	if (is_key(rec, "minor")) {
		s->has_minor = true;
		return set_kind(s, UNTAR_SPARSE_TEXT) && is_value(rec, "0");
	}
	return (is_key(rec, "numblocks") || is_key(rec, "offset") || is_key(rec, "numbytes") ||
		is_key(rec, "map")) &&
	       set_kind(s, UNTAR_SPARSE_RECORDS);
}

bool untar_sparse_take_header(struct untar_sparse *s, const unsigned char block[static UNTAR_BLOCK])
{
	uint64_t n;

	return set_kind(s, UNTAR_SPARSE_TABLE) &&
	       untar_header_read_number(block + HEADER_SIZE_AT, &n) && set_size(s, n);
}

bool untar_sparse_is_complete(const struct untar_sparse *s)
{
	bool is_text = s->kind == UNTAR_SPARSE_TEXT;

	return s->has_size && s->has_major == is_text && s->has_minor == is_text;
}

/* ---- pieces ---- */

static int refuse_damaged(struct error *err)
{
	return error_set(err, EBADMSG, "the map of a sparse file is damaged");
}

/* Adds a piece. An empty piece is allowed at the end of the file. */
int untar_map_add(struct untar_map *map, uint64_t pos, uint64_t size, struct error *err)
{
	if (pos < map->end || pos > map->size || size > map->size - pos)
		return error_set(err, EBADMSG,
				 "the pieces of a file overlap or are beyond its end");
	map->end = pos + size;
	map->packed += size;
	map->has_piece = true;
	return size > 0 ? map->pieces->add(map->pieces->arg, pos, size, err) : 0;
}

/* Adds pieces from a list such as "0,512,4096,512". */
static int add_list(struct untar_map *map, const char *s, size_t n, struct error *err)
{
	const char *end = s + n, *comma;
	uint64_t v[2];
	int r = 0;

	while (s < end && r == 0) {
		for (size_t i = 0; i < 2; i++) {
			comma = s < end ? memchr(s, ',', (size_t)(end - s)) : NULL;
			if (s > end ||
			    !pax_read_digits(s, (size_t)((comma ? comma : end) - s), &v[i]))
				return refuse_damaged(err);
			s = comma ? comma + 1 : end + 1;
		}
		r = untar_map_add(map, v[0], v[1], err);
	}
	return r < 0 || s != end ? r : refuse_damaged(err); /* fails for a comma at the end */
}

int untar_map_add_records(struct untar_map *map, const char *records, size_t size,
			  struct error *err)
{
	struct pax_record rec;
	bool has_pos = false, has_list = false, has_pieces = false;
	uint64_t pos = 0, n;
	int r = 0;

	while (size > 0 && r == 0 && pax_records_next(&records, &size, &rec)) {
		if (pax_record_is(&rec, UNTAR_SPARSE_PREFIX "map")) {
			if (has_list || has_pieces)
				return refuse_damaged(err);
			has_list = true;
			r = add_list(map, rec.value, rec.value_size, err);
		} else if (pax_record_is(&rec, UNTAR_SPARSE_PREFIX "offset")) {
			if (has_pos || !pax_read_digits(rec.value, rec.value_size, &pos))
				return refuse_damaged(err);
			has_pos = has_pieces = true;
		} else if (pax_record_is(&rec, UNTAR_SPARSE_PREFIX "numbytes")) {
			if (!has_pos || has_list || !pax_read_digits(rec.value, rec.value_size, &n))
				return refuse_damaged(err);
			has_pos = false;
			r = untar_map_add(map, pos, n, err);
		}
	}
	return r < 0 || !has_pos ? r : refuse_damaged(err);
}

static int add_entries(struct untar_map *map, const unsigned char *p, size_t n, struct error *err)
{
	uint64_t pos, size;
	int r = 0;

	for (size_t i = 0; i < n && r == 0 && *p; i++, p += TABLE_ENTRY) {
		if (!untar_header_read_number(p, &pos) ||
		    !untar_header_read_number(p + TABLE_FIELD, &size))
			return refuse_damaged(err);
		r = untar_map_add(map, pos, size, err);
	}
	return r;
}

int untar_map_add_header(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
			 struct error *err)
{
	int r = add_entries(map, block + HEADER_ENTRIES_AT, HEADER_ENTRIES, err);

	return r < 0 ? r : block[HEADER_MORE_AT] != 0;
}

int untar_map_add_table(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
			struct error *err)
{
	int r = add_entries(map, block, BLOCK_ENTRIES, err);

	return r < 0 ? r : block[BLOCK_MORE_AT] != 0;
}

/* Adds a number. The first number is that of pieces; then each piece has two numbers. */
static int add_number(struct untar_map *map, struct error *err)
{
	uint64_t v = map->number;

	map->number = map->n_digits = 0;
	if (!map->is_begun) {
		map->is_begun = true;
		if (v > SPARSE_MAX_SIZE)
			return refuse_damaged(err);
		map->n_left = 2 * v;
		return 0;
	}
	if (map->n_left-- % 2 == 1)
		return untar_map_add(map, map->pos, v, err);
	map->pos = v;
	return 0;
}

int untar_map_add_text(struct untar_map *map, const unsigned char block[static UNTAR_BLOCK],
		       struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < UNTAR_BLOCK && r == 0; i++) {
		if (map->is_begun && map->n_left == 0)
			break;
		if (block[i] >= '0' && block[i] <= '9' && map->n_digits++ < TEXT_DIGITS)
			map->number = map->number * 10 + (uint64_t)(block[i] - '0');
		else if (block[i] == '\n' && map->n_digits > 0)
			r = add_number(map, err);
		else
			return refuse_damaged(err);
	}
	return r < 0 ? r : !map->is_begun || map->n_left > 0;
}

int untar_map_finish(const struct untar_map *map, uint64_t n, struct error *err)
{
	if (!map->has_piece && map->size > 0)
		return refuse_damaged(err);
	if (map->packed != n)
		return error_set(err, EBADMSG, "a sparse file has other pieces than its map says");
	return 0;
}
