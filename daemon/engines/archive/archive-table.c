#include "daemon/engines/archive/archive-table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/dataset/member-path.h"
#include "common/util/error.h"

enum {
	TABLE_MIN_RECORDS = 256,
	TABLE_MIN_TEXTS = 4096,
	TABLE_MIN_PIECES = 256,
	TABLE_MAX_RECORDS = 1 << 30,
	TABLE_RECORDS_A_BUCKET = 2,
	TABLE_STEP_PART = 8, /* the part of the present reservation that is added at once */
	TABLE_MIN_STEP = 64 << 10,
	TABLE_FREED = 256 << 10,  /* bytes of the old array that are freed at once */
	TABLE_MIN_COPIED = 40000, /* for fewer, the spare bytes are less than TABLE_FREED */
};

/* ---- memory ---- */

/* Gives the array room for n elements of size bytes. Its content stays. */
static int resize(struct archive_array *a, uint64_t n, size_t size, struct error *err)
{
	size_t bytes = (size_t)n * size;
	void *data = MAP_FAILED;

	if (n > SIZE_MAX / size)
		return error_set(err, ENOMEM, "no memory for the index of the archive");
	if (a->data)
		data = mremap(a->data, a->size, bytes, MREMAP_MAYMOVE);
	else
		data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	if (data == MAP_FAILED)
		return error_set(err, ENOMEM, "no memory for the index of the archive");
	*a = (struct archive_array){ data, bytes };
	return 0;
}

static void clear(struct archive_array *a)
{
	if (a->data)
		munmap(a->data, a->size);
	*a = (struct archive_array){ 0 };
}

/* Reserves memory up to need bytes: in large steps, or, if there is no more memory, exactly. */
static int reserve(struct archive_table *t, uint64_t need, struct error *err)
{
	uint64_t least = need - t->reserved, step = t->reserved / TABLE_STEP_PART;
	int r;

	if (!t->reserve || need <= t->reserved)
		return 0;
	if (step < TABLE_MIN_STEP)
		step = TABLE_MIN_STEP;
	if (step < least)
		step = least;
	r = t->reserve(t->arg, step, err);
	if (r == -ENOSPC && step > least) {
		step = least;
		r = t->reserve(t->arg, step, err);
	}
	if (r == 0)
		t->reserved += step;
	return r;
}

int archive_table_reserve(struct archive_table *t, uint64_t bytes, struct error *err)
{
	int r;

	if (!t->reserve || bytes <= t->reserved)
		return 0;
	r = t->reserve(t->arg, bytes - t->reserved, err);
	if (r == 0)
		t->reserved = bytes;
	return r;
}

/* Reserves memory for n_records entries in total, and n more bytes of text. The NUL of a name is
 * part of ARCHIVE_INDEX_ENTRY. */
static int reserve_for(struct archive_table *t, uint32_t n_records, size_t n, struct error *err)
{
	return reserve(t,
		       (uint64_t)n_records * (ARCHIVE_INDEX_ENTRY - 1) + t->n_texts + n + 1 +
			       t->n_pieces * sizeof(*t->pieces),
		       err);
}

/* ---- by hash ---- */

static uint32_t *get_bucket(const struct archive_table *t, uint32_t parent, const char *name,
			    size_t n)
{
	unsigned char text[sizeof(parent) + MEMBER_MAX_NAME];
	uint32_t *buckets = t->bucket_array.data;

	assert(n <= MEMBER_MAX_NAME);
	memcpy(text, &parent, sizeof(parent));
	memcpy(text + sizeof(parent), name, n);
	return &buckets[siphash(&t->key, text, sizeof(parent) + n) & (t->n_buckets - 1)];
}

static void insert(struct archive_table *t, uint32_t i)
{
	struct archive_record *rec = &t->records[i];
	uint32_t *bucket = get_bucket(t, rec->parent, t->texts + rec->name, rec->name_size);

	rec->n_links = *bucket;
	*bucket = i;
}

/* Makes the array of records larger, and the hash, which is filled when it is used. */
static int make_room(struct archive_table *t, struct error *err)
{
	uint32_t room = t->room ? 2 * t->room : TABLE_MIN_RECORDS;
	uint32_t n_buckets = room / TABLE_RECORDS_A_BUCKET;
	int r;

	if (t->n < t->room)
		return 0;
	if (room > TABLE_MAX_RECORDS)
		return error_set(err, EFBIG, "the archive has too many members for an index");
	r = resize(&t->record_array, room, sizeof(*t->records), err);
	if (r < 0)
		return r;
	t->records = t->record_array.data;
	r = resize(&t->bucket_array, n_buckets, sizeof(uint32_t), err);
	if (r < 0)
		return r;
	t->room = room;
	t->n_buckets = n_buckets;
	t->n_hashed = 0;
	return 0;
}

/* ---- lookups ---- */

static bool has_name(const struct archive_table *t, const struct archive_record *rec,
		     const char *name, size_t n)
{
	return rec->name_size == n && !memcmp(t->texts + rec->name, name, n);
}

static uint32_t find_by_hash(struct archive_table *t, uint32_t parent, const char *name, size_t n)
{
	const struct archive_record *rec;
	uint32_t i;

	if (t->n_hashed == 0)
		memset(t->bucket_array.data, 0xff, t->bucket_array.size); /* ARCHIVE_INDEX_NONE */
	for (; t->n_hashed < t->n; t->n_hashed++)
		insert(t, t->n_hashed);
	i = *get_bucket(t, parent, name, n);
	for (; i != ARCHIVE_INDEX_NONE; i = rec->n_links) {
		rec = &t->records[i];
		if (rec->parent == parent && has_name(t, rec, name, n) && i != ARCHIVE_INDEX_ROOT)
			break;
	}
	return i;
}

/* Compares a name with that of an entry. Returns as memcmp() does. */
static int compare_name(const struct archive_table *t, const struct archive_record *rec,
			const char *name, size_t n)
{
	size_t size = rec->name_size;
	int c = memcmp(name, t->texts + rec->name, n < size ? n : size);

	return c != 0 ? c : (n > size) - (n < size);
}

uint32_t archive_table_find(struct archive_table *t, uint32_t parent, const char *name, size_t n)
{
	const struct archive_record *dir = &t->records[parent];
	uint32_t last = (uint32_t)dir->size;
	int c;

	if (last == 0)
		return ARCHIVE_INDEX_NONE;
	c = compare_name(t, &t->records[last], name, n);
	if (c == 0)
		return last;
	return c > 0 && !dir->is_unsorted ? ARCHIVE_INDEX_NONE : find_by_hash(t, parent, name, n);
}

/* Makes a new entry the last one of its directory. */
static void note_last(struct archive_table *t, uint32_t i, const char *name, size_t n)
{
	struct archive_record *dir = &t->records[t->records[i].parent];

	if (i == ARCHIVE_INDEX_ROOT)
		return;
	if (dir->size > 0 && compare_name(t, &t->records[dir->size], name, n) < 0)
		dir->is_unsorted = true;
	dir->size = i;
}

/* ---- entries ---- */

int archive_table_init(struct archive_table *t, struct error *err)
{
	int r;

	*t = (struct archive_table){ 0 };
	r = siphash_key_init(&t->key);
	return r < 0 ? error_errno(err, -r, "make a key for the index of the archive") : 0;
}

void archive_table_deinit(struct archive_table *t)
{
	clear(&t->record_array);
	clear(&t->text_array);
	clear(&t->bucket_array);
	clear(&t->piece_array);
}

/* Appends a text, for which memory was reserved. */
static int append_text(struct archive_table *t, const char *text, size_t n, uint64_t *atp,
		       struct error *err)
{
	uint64_t room = t->text_array.size ? t->text_array.size : TABLE_MIN_TEXTS;
	int r = 0;

	while (room - t->n_texts < n + 1)
		room *= 2;
	if (room > t->text_array.size)
		r = resize(&t->text_array, room, 1, err);
	if (r < 0)
		return r;
	t->texts = t->text_array.data;
	*atp = t->n_texts;
	memcpy(t->texts + t->n_texts, text, n);
	t->texts[t->n_texts + n] = '\0';
	t->n_texts += n + 1;
	return 0;
}

int archive_table_add_text(struct archive_table *t, const char *text, size_t n, uint64_t *atp,
			   struct error *err)
{
	int r = reserve_for(t, t->n, n, err);

	return r < 0 ? r : append_text(t, text, n, atp, err);
}

int archive_table_add(struct archive_table *t, const struct archive_record *rec, const char *name,
		      size_t n, uint32_t *ip, struct error *err)
{
	uint64_t at;
	int r;

	r = reserve_for(t, t->n + 1, n, err);
	if (r == 0)
		r = make_room(t, err);
	if (r == 0)
		r = append_text(t, name, n, &at, err);
	if (r < 0)
		return r;
	t->records[t->n] = *rec;
	t->records[t->n].name = at & ARCHIVE_INDEX_TEXTS;
	t->records[t->n].name_size = (uint8_t)n;
	note_last(t, t->n, name, n);
	*ip = t->n++;
	return 0;
}

int archive_table_add_piece(struct archive_table *t, uint64_t pos, uint64_t at, struct error *err)
{
	uint64_t room = t->piece_array.size / sizeof(*t->pieces);
	int r = reserve_for(t, t->n, sizeof(*t->pieces), err);

	if (r == 0 && t->n_pieces == room)
		r = resize(&t->piece_array, room ? 2 * room : TABLE_MIN_PIECES, sizeof(*t->pieces),
			   err);
	if (r < 0)
		return r;
	t->pieces = t->piece_array.data;
	t->pieces[t->n_pieces++] = (struct archive_piece){ pos, at };
	return 0;
}

void archive_table_finish(struct archive_table *t)
{
	clear(&t->bucket_array);
	if (resize(&t->record_array, t->n, sizeof(*t->records), NULL) == 0) /* makes it smaller */
		t->records = t->record_array.data;
	if (resize(&t->text_array, t->n_texts, 1, NULL) == 0)
		t->texts = t->text_array.data;
	if (t->n_pieces > 0 && resize(&t->piece_array, t->n_pieces, sizeof(*t->pieces), NULL) == 0)
		t->pieces = t->piece_array.data;
}

/* ---- places ---- */

/* Moves entries from place to place. It needs no memory. If there are many entries, each move waits
 * for the memory. */
static void move_inside(struct archive_table *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		while (t->records[i].n_links != i) {
			struct archive_record *to = &t->records[t->records[i].n_links], there = *to;

			*to = t->records[i];
			t->records[i] = there;
		}
	}
}

/* Returns true if a second array needs no more memory than is reserved for an entry. The first
 * array is freed while the second one is filled. */
static bool may_copy(const struct archive_table *t)
{
	const size_t size = sizeof(*t->records), spare = ARCHIVE_INDEX_ENTRY - 1 - size;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	_cleanup_(freep) bool *is_used = calloc(t->n * size / page + 1, sizeof(*is_used));
	uint64_t used = 0;

	for (size_t i = 0; i < t->n && is_used; i++) {
		size_t to = t->records[i].n_links * size;

		for (size_t k = to / page; k <= (to + size - 1) / page; k++) {
			used += !is_used[k];
			is_used[k] = true;
		}
		if (used * page > t->n * spare + i * size / TABLE_FREED * TABLE_FREED)
			return false;
	}
	return is_used;
}

static void copy(const struct archive_table *t, struct archive_record *to)
{
	size_t freed = 0;

	for (size_t i = 0; i < t->n; i++) {
		to[t->records[i].n_links] = t->records[i];
		if ((i + 1) * sizeof(*to) - freed < TABLE_FREED)
			continue;
		madvise((char *)t->records + freed, TABLE_FREED, MADV_DONTNEED);
		freed += TABLE_FREED;
	}
}

void archive_table_move(struct archive_table *t)
{
	struct archive_array a = { 0 };

	if (t->n < TABLE_MIN_COPIED || !may_copy(t) ||
	    resize(&a, t->n, sizeof(*t->records), NULL) < 0) {
		move_inside(t);
		return;
	}
	madvise(a.data, a.size, MADV_NOHUGEPAGE); /* a huge page would count as 512 pages */
	copy(t, a.data);
	clear(&t->record_array);
	t->record_array = a;
	t->records = a.data;
}
