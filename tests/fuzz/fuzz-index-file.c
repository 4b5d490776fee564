/*
 * The file with the index of a tar. Whatever the file contains, the entries are inside the archive
 * and form a tree.
 */
#include "tests/fuzz/fuzz.h"

#include <endian.h>

#include "common/dataset/member-path.h"
#include "common/util/fnv.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/index-file.h"

enum { HEAD = 64, ARCHIVE_SIZE = 1 << 20 };

static const struct stat archive_stat = { .st_size = ARCHIVE_SIZE, .st_mtim = { 1000, 5 } };

/* Each block is the header of a file "a" of 10 bytes. */
static int get_archive(void)
{
	static int fd = -1;
	unsigned char block[512] = "a";
	unsigned sum = 8 * ' ';

	if (fd >= 0)
		return fd;
	fd = memfd_create("archive", MFD_CLOEXEC);
	strcpy((char *)block + 100, "0000644");
	strcpy((char *)block + 124, "00000000012");
	strcpy((char *)block + 136, "00000000000");
	block[156] = '0';
	memcpy(block + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(block); i++)
		sum += block[i];
	snprintf((char *)block + 148, 8, "%06o", sum);
	for (off_t at = 0; at < ARCHIVE_SIZE; at += (off_t)sizeof(block))
		FUZZ_CHECK(pwrite(fd, block, sizeof(block), at) == sizeof(block));
	return fd;
}

/* The first byte says whether the head is made to fit what follows, as an index with nested. */
static int make_file(const uint8_t *data, size_t size)
{
	static uint8_t file[1 << 17];
	uint64_t head[HEAD / 8] = { 0 };

	if (size == 0 || size > sizeof(file) - HEAD)
		return -1;
	if (data[0] & 1)
		return fuzz_file(data + 1, size - 1);
	memcpy(head, "stgidx1\n", 8);
	head[1] = htole64(ARCHIVE_SIZE);
	head[2] = htole64(1000);
	head[3] = htole64(5);
	head[4] = htole64(1 + data[0] / 2);
	head[5] = htole64(size - 1);
	head[6] = htole64(fnv_add(FNV_INIT, data + 1, size - 1));
	head[7] = htole64(UINT64_C(1) << 32);
	memcpy(file, head, HEAD);
	memcpy(file + HEAD, data + 1, size - 1);
	return fuzz_file(file, HEAD + size - 1);
}

static void check_entry(const struct archive_index *x, uint64_t i, uint64_t n)
{
	const struct archive_record *rec = archive_index_get(x, i);
	const char *name = archive_index_get_text(x, rec->name);

	FUZZ_CHECK(strlen(name) == rec->name_size && !strchr(name, '/'));
	FUZZ_CHECK(strcmp(name, "..") != 0 && strcmp(name, ".") != 0);
	FUZZ_CHECK(rec->parent < n && (i == ARCHIVE_INDEX_ROOT) == (rec->name_size == 0));
	FUZZ_CHECK(archive_index_get(x, rec->parent)->type == MEMBER_DIR);
	if (rec->type == MEMBER_FILE && !rec->is_sparse) /* a sparse file may be larger */
		FUZZ_CHECK(rec->start <= ARCHIVE_SIZE && rec->size <= ARCHIVE_SIZE - rec->start);
	if (rec->type == MEMBER_DIR)
		FUZZ_CHECK(rec->size <= n && (rec->size == 0 || rec->start + rec->size <= n));
	if (rec->type == MEMBER_SYMLINK)
		FUZZ_CHECK(strlen(archive_index_get_text(x, rec->start)) == rec->size);
	if (i != ARCHIVE_INDEX_ROOT)
		FUZZ_CHECK(archive_index_find(x, archive_index_get(x, rec->parent), name) == i);
}

static void load(int fd, bool nested)
{
	_cleanup_(archive_index_freep) struct archive_index *x = NULL;
	struct archive_counts counts;
	struct error err = ERROR_INIT;
	int r;

	FUZZ_CHECK(archive_index_new(&x, 0, &err) == 0);
	r = index_file_load(x, NULL, fd, get_archive(), &archive_stat, nested, &err);
	fuzz_check_error(r, &err);
	if (r < 0)
		return;
	FUZZ_CHECK(archive_index_finish(x, NULL, &err) == 0);
	archive_index_get_counts(x, &counts);
	for (uint64_t i = 0; i < counts.n_records; i++)
		check_entry(x, i, counts.n_records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = make_file(data, size);

	if (fd < 0)
		return 0;
	load(fd, false);
	load(fd, true);
	return 0;
}
