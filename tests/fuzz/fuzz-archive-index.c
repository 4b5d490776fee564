/*
 * The index of a tar. It has the members that extraction reads, and it is empty if extraction
 * fails.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "common/dataset/member-path.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/archive/tar-scan.h"
#include "daemon/engines/archive/untar-members.h"

#define MAX_MEMBERS 500

static const struct members_hook no_hook;

static struct seen {
	char path[MEMBER_PATH_SIZE];
	enum member_type type;
	uint64_t size, sum;
} seen[MAX_MEMBERS];

/* Zeros add nothing, so that a sparse file has the sum of its pieces. */
static uint64_t add_sum(uint64_t sum, uint64_t pos, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sum += data[i] * ((pos + i) * UINT64_C(0x9e3779b97f4a7c15) + 1);
	return sum;
}

/* What extraction reads of the archive, which it has to take whole. */
static size_t read_members(const uint8_t *data, size_t size)
{
	_cleanup_(members_closep) struct members *m = NULL;
	struct error err = ERROR_INIT;
	struct member member;
	struct stream *s;
	struct piece p;
	size_t n = 0;
	int r;

	FUZZ_CHECK(stream_new_memory(&s, data, size, 0) == 0);
	FUZZ_CHECK(members_open_tar(&m, s, &no_hook, &err) == 0);
	while ((r = members_next(m, &member, &err)) > 0 && n < MAX_MEMBERS) {
		struct seen *v = &seen[n++];

		FUZZ_CHECK(member_path_clean(member.path, v->path, &err) == 0);
		v->type = member.type;
		v->size = member.size;
		v->sum = 0;
		while ((r = members_read(m, &p, &err)) > 0)
			v->sum = add_sum(v->sum, p.offset, p.data, p.size);
		FUZZ_CHECK(r == 0);
	}
	FUZZ_CHECK(r == 0 || n == MAX_MEMBERS);
	return r == 0 ? n : 0;
}

static const struct archive_record *look(const struct archive_index *x, const char *path)
{
	const struct archive_record *rec = archive_index_get(x, ARCHIVE_INDEX_ROOT);
	char name[MEMBER_MAX_NAME + 1];

	while (*path) {
		size_t n = strcspn(path, "/");

		FUZZ_CHECK(rec->type == MEMBER_DIR && n <= MEMBER_MAX_NAME);
		memcpy(name, path, n);
		name[n] = '\0';
		path += n + (path[n] == '/');
		rec = archive_index_get(x, archive_index_find(x, rec, name));
		FUZZ_CHECK(rec);
	}
	return rec;
}

static bool comes_again(size_t i, size_t n)
{
	for (size_t k = i + 1; k < n; k++)
		if (!strcmp(seen[k].path, seen[i].path))
			return true;
	return false;
}

/* The content lies in the archive. */
static uint64_t get_sum(const struct archive_index *x, const struct archive_record *rec,
			const uint8_t *data, size_t size)
{
	const struct archive_piece *p = archive_index_get_pieces(x, rec);
	uint64_t sum = 0, end = 0;

	FUZZ_CHECK(rec->start <= size);
	if (!rec->is_sparse) {
		FUZZ_CHECK(rec->size <= size - rec->start);
		return add_sum(0, 0, data + rec->start, rec->size);
	}
	for (uint32_t i = 0; i < rec->crc; i++) {
		uint64_t n = p[i + 1].at - p[i].at;

		FUZZ_CHECK(p[i].at < p[i + 1].at && p[i + 1].at <= size - rec->start);
		FUZZ_CHECK(p[i].pos >= end && p[i].pos < rec->size && n <= rec->size - p[i].pos);
		sum = add_sum(sum, p[i].pos, data + rec->start + p[i].at, n);
		end = p[i].pos + n;
	}
	FUZZ_CHECK(p[rec->crc].pos == rec->size);
	return sum;
}

static void compare(const struct archive_index *x, const uint8_t *data, size_t size, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct archive_record *rec = look(x, seen[i].path);

		if (seen[i].type != MEMBER_FILE || comes_again(i, n))
			continue;
		FUZZ_CHECK(rec->type == MEMBER_FILE && rec->size == seen[i].size);
		FUZZ_CHECK(get_sum(x, rec, data, size) == seen[i].sum);
	}
}

static void check_same(const struct tar_scan *scan, int expected,
		       const struct archive_counts *counts)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct error err = ERROR_INIT;
	struct archive_counts got;
	int r;

	FUZZ_CHECK(archive_index_new(&x, 0, &err) == 0);
	r = tar_scan(x, scan, &err);
	FUZZ_CHECK(r == expected);
	if (r < 0)
		return;
	FUZZ_CHECK(archive_index_finish(x, NULL, &err) == 0);
	archive_index_get_counts(x, &got);
	FUZZ_CHECK(!memcmp(&got, counts, sizeof(got)));
}

/* Read ahead by threads, the same comes out. Of some inputs: threads take their time. */
static void check_ahead(const struct tar_scan *scan, const uint8_t *data, int expected,
			const struct archive_counts *counts)
{
	struct tar_scan ahead = *scan;

	if (scan->size < 2048 || data[1024] % 8 != 0)
		return;
	ahead.n_readers = 3;
	ahead.is_fast = data[1025] % 16 < 8;
	ahead.segment_size = 512 * (1 + data[1025] % 8);
	check_same(&ahead, expected, counts);
}

/* Of tars in it all lies in it as well, and what is wrong with it is wrong with them. */
static void check_nested(const struct tar_scan *scan, const uint8_t *data, size_t size,
			 int expected)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct error err = ERROR_INIT;
	struct archive_counts counts;
	struct tar_scan nested = *scan;
	int r;

	nested.nested = true;
	FUZZ_CHECK(archive_index_new(&x, 0, &err) == 0);
	r = tar_scan(x, &nested, &err);
	fuzz_check_error(r, &err);
	FUZZ_CHECK(r < 0 || expected == 0);
	if (r < 0)
		return;
	FUZZ_CHECK(archive_index_finish(x, NULL, &err) == 0);
	archive_index_get_counts(x, &counts);
	for (uint64_t i = 0; i < counts.n_records; i++)
		if (archive_index_get(x, i)->type == MEMBER_FILE)
			get_sum(x, archive_index_get(x, i), data, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	const struct tar_scan scan = { .fd = fuzz_file(data, size), .size = size };
	struct archive_counts counts;
	struct error err = ERROR_INIT;
	int r;

	FUZZ_CHECK(archive_index_new(&x, 0, &err) == 0);
	r = tar_scan(x, &scan, &err);
	fuzz_check_error(r, &err);
	check_nested(&scan, data, size, r);
	if (r < 0) {
		check_ahead(&scan, data, r, NULL);
		return 0;
	}
	FUZZ_CHECK(archive_index_finish(x, NULL, &err) == 0);
	archive_index_get_counts(x, &counts);
	check_ahead(&scan, data, 0, &counts);
	compare(x, data, size, read_members(data, size));
	return 0;
}
