/* The index of an archive: the tree that extraction would make, or the same refusal. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/util/fnv.h"
#include "daemon/engines/archive/archive-index.h"
#include "daemon/engines/archive/tar-scan.h"
#include "daemon/engines/copy/stage-io.h"

#define MTIME 4711

/* Calls of memcmp(), one for each entry that a name is compared with. */
static _Atomic uint64_t n_compared; /* also of threads */

int __real_memcmp(const void *a, const void *b, size_t n);
int __wrap_memcmp(const void *a, const void *b, size_t n);

int __wrap_memcmp(const void *a, const void *b, size_t n)
{
	n_compared++;
	return __real_memcmp(a, b, n);
}

static const struct archive_record *look(const struct archive_index *x, const char *path)
{
	const struct archive_record *rec = archive_index_get(x, ARCHIVE_INDEX_ROOT);
	char name[256];

	while (*path) {
		size_t n = strcspn(path, "/");
		uint32_t i;

		memcpy(name, path, n);
		name[n] = '\0';
		path += n + (path[n] == '/');
		i = archive_index_find(x, rec, name);
		if (i == ARCHIVE_INDEX_NONE)
			return NULL;
		rec = archive_index_get(x, i);
	}
	return rec;
}

static struct archive_index *begin(void)
{
	struct archive_index *x;

	assert_int_equal(archive_index_new(&x, MTIME, NULL), 0);
	return x;
}

static int add(struct archive_index *x, enum member_type type, const char *path, const char *link,
	       uint64_t start)
{
	const struct member m = {
		.type = type,
		.path = path,
		.link = link,
		.mode = 06751,
		.mtime = 1000,
		.mtime_ns = 5,
		.has_mtime = true,
		.size = type == MEMBER_FILE ? 10 : 0,
	};

	return archive_index_add(x, &m, start, NULL);
}

static void test_entries_are_sorted_in_their_directories(void **state)
{
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	const struct archive_record *dir, *rec;
	struct archive_counts counts;
	char path[64];

	for (uint32_t i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), "./d%u/sub/f%u", i * 7 % 100, i);
		assert_int_equal(add(x, MEMBER_FILE, path, NULL, i), 0);
	}
	assert_int_equal(add(x, MEMBER_DIR, "d5/", NULL, 0), 0);
	assert_int_equal(archive_index_finish(x, NULL, NULL), 0);
	for (uint32_t i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), "d%u/sub/f%u", i * 7 % 100, i);
		rec = look(x, path);
		assert_non_null(rec);
		assert_int_equal(rec->start, i);
		assert_int_equal(rec->mode, 0751); /* without setuid */
	}
	assert_null(look(x, "d1/sub/f0"));
	for (uint64_t i = 0; (dir = archive_index_get(x, i)); i++) {
		if (dir->type != MEMBER_DIR)
			continue;
		for (uint64_t k = dir->start; k < dir->start + dir->size; k++) {
			rec = archive_index_get(x, k);
			assert_ptr_equal(archive_index_get(x, rec->parent), dir);
			if (k > dir->start)
				assert_true(strcmp(archive_index_get_text(x, rec[-1].name),
						   archive_index_get_text(x, rec->name)) < 0);
		}
	}
	assert_int_equal(look(x, "d5")->mtime, 1000);
	assert_int_equal(look(x, "d6")->mtime, MTIME);
	assert_int_equal(look(x, "d6")->mode, 0755);
	assert_int_equal(look(x, "")->n_links, 102);
	archive_index_get_counts(x, &counts);
	assert_int_equal(counts.n_files, 3000);
	assert_int_equal(counts.n_records, 3201);
	assert_in_range(counts.memory, 1, 3201 * (64 + 6) + 200);
}

/* Sorted names are not looked for by their hash. Red where one that comes in between, or again, is
 * taken for a new one. */
static void test_sorted_names_come_again_or_in_between(void **state)
{
	static const char *const paths[] = {
		"a/b",	 "a/c",	 "a/bb", "a/c",	  "a/d",   "a/b", "b",
		"a/e",	 "a/d",	 "a/cc", "d/e/f", "d/e/g", "d/f", "d/e/h",
		"d/e/g", "d/ea", "d/f",	 "d/g",	  "aa",	   "a/e", "d/e/gg",
	};
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	struct archive_counts counts;
	size_t n_again = 0;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(add(x, MEMBER_FILE, paths[i], NULL, i), 0);
	assert_int_equal(archive_index_finish(x, NULL, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		bool comes_again = false;

		for (size_t k = i + 1; k < ARRAY_SIZE(paths); k++)
			comes_again = comes_again || !strcmp(paths[k], paths[i]);
		n_again += comes_again;
		if (!comes_again)
			assert_int_equal(look(x, paths[i])->start, i);
	}
	archive_index_get_counts(x, &counts);
	assert_int_equal(counts.n_replaced, n_again);
	assert_int_equal(counts.n_files, ARRAY_SIZE(paths) - n_again);
}

static unsigned n_asked;

static bool is_cancelled_later(const struct stage_io *io)
{
	return ++n_asked > 2;
}

static int get_reason(const struct stage_io *io, struct error *err)
{
	return error_set(err, ECANCELED, "cancelled");
}

/* Red where all is sorted in one call that nobody can stop. */
static void test_sorting_many_entries_can_be_cancelled(void **state)
{
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	const struct stage_io_ops ops = { .is_cancelled = is_cancelled_later,
					  .get_reason = get_reason };
	struct stage_io io = { .ops = &ops };
	char path[64];

	for (uint32_t i = 0; i < 100000; i++) {
		snprintf(path, sizeof(path), "d/%u", i * 2654435761u);
		assert_int_equal(add(x, MEMBER_FILE, path, NULL, i), 0);
	}
	assert_int_equal(archive_index_finish(x, &io, NULL), -ECANCELED);
	assert_in_range(n_asked, 3, 4);
}

static uint64_t n_reserved, n_allowed;

static int reserve(void *arg, uint64_t bytes, struct error *err)
{
	if (n_reserved + bytes > n_allowed)
		return -ENOSPC;
	n_reserved += bytes;
	return 0;
}

/* The most that the process had in memory since the last call, in bytes. */
static uint64_t take_peak(void)
{
	uint64_t peak = 0;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmHWM:", 6))
			peak = strtoull(line + 6, NULL, 10) * 1024;
	fclose(f);
	f = fopen("/proc/self/clear_refs", "w"); /* from what it has now */
	assert_non_null(f);
	fputs("5", f);
	fclose(f);
	return peak;
}

#define N_MANY 400000u

/* Writes the path of a member. step: 0: 400 directories take turns. */
static int print_path(char path[static 64], uint32_t i, uint32_t step)
{
	uint32_t k = step > 0 ? i * step % N_MANY : i;

	return snprintf(path, 64, "%03u/%08u", step > 0 ? k / 1000 : k % (N_MANY / 1000), k);
}

/* Files in directories of a thousand, and hard links where they are asked for. step: 1: in their
 * order; a large prime number: in no order; 0: see print_path(). */
static uint64_t add_many(struct archive_index *x, uint32_t step, unsigned n_links)
{
	uint64_t names = 0;
	char path[64], to[64];

	for (uint32_t i = 0; i < N_MANY; i++) {
		bool is_link = n_links > 0 && i % n_links == 1;

		names += (uint64_t)print_path(path, i, step) - 4;
		assert_int_equal(add(x, is_link ? MEMBER_HARDLINK : MEMBER_FILE, path, to, i), 0);
		if (!is_link)
			memcpy(to, path, sizeof(to));
	}
	return names;
}

static void check_places_of_many(const struct archive_index *x, uint32_t step)
{
	char path[64];

	for (uint32_t i = 0; i < N_MANY; i++) {
		print_path(path, i, step);
		assert_int_equal(look(x, path)->start, i);
	}
}

/* 64 bytes for each beside its name, at any time, and they are reserved. Red where sorting copies
 * all entries, and then frees the first array. */
static void check_memory_of_many(uint32_t step, unsigned n_links)
{
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	uint64_t before, names, most;

	n_reserved = 0;
	n_allowed = UINT64_MAX;
	archive_index_set_reserve(x, reserve, NULL);
	take_peak();
	before = take_peak();
	names = add_many(x, step, n_links);
	assert_int_equal(archive_index_finish(x, NULL, NULL), 0);
	most = (N_MANY + N_MANY / 1000) * 64ull + names;
	if (unit_memory_can_be_measured())
		assert_in_range(take_peak() - before, N_MANY * 50ull, most + (1 << 20));
	assert_in_range(n_reserved, N_MANY * 60ull, most * 9 / 8 + (64 << 10));
	if (n_links == 0)
		check_places_of_many(x, step);
}

static void test_the_memory_of_many_entries_is_reserved(void **state)
{
	for (unsigned n_links = 0; n_links < 8; n_links += 4) {
		check_memory_of_many(7919, n_links);
		check_memory_of_many(1, n_links);
		check_memory_of_many(0, n_links);
	}
}

static void test_without_memory_no_entry_is_added(void **state)
{
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	char path[64];
	int r = 0;

	n_reserved = 0;
	n_allowed = 1 << 20;
	archive_index_set_reserve(x, reserve, NULL);
	for (uint32_t i = 0; i < 100000 && r == 0; i++) {
		snprintf(path, sizeof(path), "%u", i);
		r = add(x, MEMBER_FILE, path, NULL, i);
	}
	assert_int_equal(r, -ENOSPC);
	assert_in_range(n_reserved, (1 << 20) * 7 / 8, 1 << 20);
	assert_int_equal(archive_index_expect(x, 100000, 0, NULL), -ENOSPC);
}

static void test_the_last_of_a_name_counts(void **state)
{
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	struct archive_counts counts;

	assert_int_equal(add(x, MEMBER_FILE, "a", NULL, 1), 0);
	assert_int_equal(add(x, MEMBER_HARDLINK, "h", "./a", 0), 0);
	assert_int_equal(add(x, MEMBER_FILE, "/a", NULL, 2), 0);
	assert_int_equal(add(x, MEMBER_SYMLINK, "l", "a", 0), 0);
	assert_int_equal(add(x, MEMBER_HARDLINK, "k", "l", 0), 0);
	assert_int_equal(add(x, MEMBER_HARDLINK, "h2", "h", 0), 0);
	assert_int_equal(archive_index_finish(x, NULL, NULL), 0);
	archive_index_get_counts(x, &counts);
	assert_int_equal(counts.n_replaced, 1);
	assert_int_equal(counts.n_absolute, 1);
	assert_int_equal(look(x, "a")->start, 2);
	assert_int_equal(look(x, "a")->n_links, 1);
	assert_int_equal(look(x, "h")->start, 1); /* what the name stood for then */
	assert_int_equal(look(x, "h")->n_links, 2);
	assert_int_equal(look(x, "h")->number, look(x, "h2")->number);
	assert_int_equal(look(x, "k")->type, MEMBER_SYMLINK);
	assert_string_equal(archive_index_get_text(x, look(x, "k")->start), "a");
}

/* Memory for what is replaced has a bound, with its own error; a number is not given twice. */
static void test_names_that_come_again_have_a_bound(void **state)
{
	static const struct {
		enum member_type type;
		unsigned n; /* so many fit */
	} cases[] = {
		{ MEMBER_FILE, (64 << 20) / 4 },
		{ MEMBER_SYMLINK, (64 << 20) / (4 + 4095 + 1) },
	};
	char link[4096];

	memset(link, 'x', sizeof(link) - 1);
	link[sizeof(link) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(archive_index_freep) struct archive_index *x = begin();
		struct archive_counts counts;

		for (unsigned k = 0; k < cases[i].n + 1; k++)
			assert_int_equal(add(x, cases[i].type, "a", link, k), 0);
		assert_int_equal(add(x, cases[i].type, "a", link, 0), -EFBIG);
		archive_index_get_counts(x, &counts);
		assert_int_equal(counts.n_replaced, cases[i].n);
	}
}

static void test_what_extraction_refuses_is_refused(void **state)
{
	static const struct {
		enum member_type type;
		const char *path, *link;
		int expect;
	} cases[] = {
		{ MEMBER_FILE, "../evil", NULL, -EINVAL },
		{ MEMBER_FILE, "a/../../evil", NULL, -EINVAL },
		{ MEMBER_FILE, "link/evil", NULL, -EEXIST }, /* through a link */
		{ MEMBER_FILE, "file/below", NULL, -EEXIST },
		{ MEMBER_DIR, "link", NULL, -EEXIST },
		{ MEMBER_FILE, "dir", NULL, -EISDIR },
		{ MEMBER_SYMLINK, "dir", "/tmp", -EISDIR },
		{ MEMBER_FILE, ".", NULL, -EINVAL },
		{ MEMBER_SYMLINK, "./", "/tmp", -EINVAL },
		{ MEMBER_SYMLINK, "l", "", -EINVAL },
		{ MEMBER_HARDLINK, ".", ".", -EINVAL },
		{ MEMBER_HARDLINK, "h", "missing", -ENOENT },
		{ MEMBER_HARDLINK, "h", "link/passwd", -ENOENT },
		{ MEMBER_HARDLINK, "h", "../victim", -EINVAL },
		{ MEMBER_HARDLINK, "h", "dir", -EISDIR },
		{ MEMBER_OTHER, "device", NULL, -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(archive_index_freep) struct archive_index *x = begin();

		assert_int_equal(add(x, MEMBER_SYMLINK, "link", "/etc", 0), 0);
		assert_int_equal(add(x, MEMBER_FILE, "file", NULL, 0), 0);
		assert_int_equal(add(x, MEMBER_FILE, "dir/file", NULL, 0), 0);
		assert_int_equal(add(x, cases[i].type, cases[i].path, cases[i].link, 0),
				 cases[i].expect);
	}
}

/* Names of one length whose FNV-1a ends in the same bits, in the directory at the top: a table by
 * that hash, without a key, has all of them in one bucket. */
static void test_names_of_one_hash_are_not_compared_with_each_other(void **state)
{
	enum { N = 2000, BITS = 12 };
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	const uint32_t top = ARCHIVE_INDEX_ROOT;
	uint64_t begun = fnv_add(FNV_INIT, &top, sizeof(top)), h;
	unsigned n = 0;
	char name[16];

	for (unsigned i = 0; n < N; i++) {
		for (unsigned k = 0; k < 8; k++)
			name[k] = "0123456789abcdef"[i >> 4 * k & 15];
		name[8] = '\0';
		h = fnv_add(begun, name, 8);
		if (((h ^ h >> 32) & ((1u << BITS) - 1)) != 0)
			continue;
		n_compared = n == 0 ? 0 : n_compared;
		assert_int_equal(add(x, MEMBER_FILE, name, NULL, n), 0);
		n++;
	}
	assert_in_range(n_compared, 0, 10 * N);
}

/* ---- tars ---- */

/* Headers are read ahead, so many bytes by each thread; 0: in order. */
static uint64_t segment_size;
static bool nested, is_fast;

static int scan(const char *dir, struct archive_index *x, uint64_t size, int *fdp)
{
	struct tar_scan scan = { .size = size,
				 .n_readers = 3,
				 .segment_size = segment_size,
				 .is_fast = is_fast,
				 .nested = nested };
	_cleanup_(freep) char *path = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int r;

	assert_true(asprintf(&path, "%s/t.tar", dir) > 0);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	scan.fd = fd;
	if (size == 0)
		scan.size = (uint64_t)st.st_size;
	r = tar_scan(x, &scan, NULL);
	if (r == 0)
		r = archive_index_finish(x, NULL, NULL);
	if (fdp)
		*fdp = steal_fd(&fd);
	return r;
}

static void check_content(const char *dir, const struct archive_index *x, int fd, const char *name)
{
	const struct archive_record *rec = look(x, name);
	_cleanup_(freep) char *path = NULL, *a = NULL, *b = NULL;
	_cleanup_(fd_closep) int file = -1;
	struct stat st;

	assert_true(asprintf(&path, "%s/src/%s", dir, name) > 0);
	file = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(file >= 0 && fstat(file, &st) == 0);
	assert_non_null(rec);
	assert_int_equal(rec->size, st.st_size);
	assert_int_equal(rec->mode, st.st_mode & 0777);
	a = malloc((size_t)st.st_size);
	b = malloc((size_t)st.st_size);
	assert_int_equal(pread(file, a, (size_t)st.st_size, 0), st.st_size);
	assert_int_equal(pread(fd, b, (size_t)st.st_size, (off_t)rec->start), st.st_size);
	assert_memory_equal(a, b, (size_t)st.st_size);
}

static void make_tree(const char *dir)
{
	unit_run_in(
		dir,
		"mkdir -p src/d src/empty && head -c 1 /dev/zero >src/d/one && head -c 511 "
		"/dev/urandom >src/d/511"
		" && head -c 512 /dev/urandom >src/d/512 && head -c 700000 /dev/urandom >src/big"
		" && for i in $(seq 300); do echo $i$i >src/d/f$i; done && ln src/big src/hard && "
		"ln -s big src/soft"
		" && n=$(printf %0200d 7) && mkdir src/$n && cp src/d/512 src/$n/$n && chmod 700 "
		"src/d/512");
}

static void test_content_is_found_in_all_dialects(void **state)
{
	static const char *const formats[] = { "gnu", "posix", "oldgnu" };
	char name[2 * 201], *n = name;

	make_tree(*state);
	snprintf(name, sizeof(name), "%0200d/%0200d", 7, 7);
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		_cleanup_(archive_index_freep) struct archive_index *x = begin();
		_cleanup_(freep) char *command = NULL;
		_cleanup_(fd_closep) int fd = -1;

		assert_true(asprintf(&command, "tar --format=%s -C src -cf t.tar .", formats[i]) >
			    0);
		unit_run_in(*state, command);
		assert_int_equal(scan(*state, x, 0, &fd), 0);
		check_content(*state, x, fd, "d/one");
		check_content(*state, x, fd, "d/511");
		check_content(*state, x, fd, "d/512");
		check_content(*state, x, fd, "d/f299");
		check_content(*state, x, fd, "big");
		check_content(*state, x, fd, "hard");
		check_content(*state, x, fd, n);
		assert_int_equal(look(x, "hard")->n_links, 2);
		assert_string_equal(archive_index_get_text(x, look(x, "soft")->start), "big");
		assert_int_equal(look(x, "empty")->size, 0);
	}
}

/* Wherever it is cut off, also between two members and in its end. */
static void test_an_archive_that_is_cut_off_has_no_index(void **state)
{
	const uint64_t end = 5 * (512 + 3072) + 1024; /* there are zeros after it */

	unit_run_in(*state,
		    "mkdir src && for i in 1 2 3 4 5; do head -c 3000 /dev/urandom >src/$i; done"
		    " && tar -b 2 -C src -cf t.tar 1 2 3 4 5");
	for (uint64_t size = 1; size <= end; size += segment_size || is_fast ? 997 : 1) {
		_cleanup_(archive_index_freep) struct archive_index *x = begin();

		assert_int_equal(scan(*state, x, size, NULL), size == end ? 0 : -ENODATA);
	}
}

/* Of a sparse file, from its pieces. */
static unsigned char *read_sparse(const struct archive_index *x, int fd,
				  const struct archive_record *rec)
{
	const struct archive_piece *p = archive_index_get_pieces(x, rec);
	unsigned char *data = calloc(1, rec->size);
	uint64_t end = 0;

	for (uint32_t i = 0; i < rec->crc; i++) {
		size_t n = (size_t)(p[i + 1].at - p[i].at);

		assert_true(p[i].pos >= end && n > 0 && n <= rec->size - p[i].pos);
		assert_int_equal(pread(fd, data + p[i].pos, n, (off_t)(rec->start + p[i].at)), n);
		end = p[i].pos + n;
	}
	assert_int_equal(p[rec->crc].pos, rec->size);
	return data;
}

static void check_sparse(const char *dir, const struct archive_index *x, int fd, const char *name)
{
	const struct archive_record *rec = look(x, name);
	_cleanup_(freep) char *path = NULL;
	_cleanup_(freep) unsigned char *a = NULL, *b = NULL;
	_cleanup_(fd_closep) int file = -1;
	struct stat st;

	assert_true(asprintf(&path, "%s/src/%s", dir, name) > 0);
	file = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(file >= 0 && fstat(file, &st) == 0);
	assert_true(rec && rec->is_sparse);
	assert_int_equal(rec->size, st.st_size);
	a = malloc((size_t)st.st_size);
	b = read_sparse(x, fd, rec);
	assert_int_equal(pread(file, a, (size_t)st.st_size, 0), st.st_size);
	assert_memory_equal(a, b, (size_t)st.st_size);
}

static const char *const sparse_formats[] = {
	"--format=gnu",
	"--format=posix --sparse-version=0.0",
	"--format=posix --sparse-version=0.1",
	"--format=posix --sparse-version=1.0",
};

/* Files of holes alone, with data at both ends, with four pieces and with more than a block after
 * the header has; the file behind each is found, and names that are too long for a header are. */
static void make_sparse(const char *dir)
{
	unit_run_in(
		dir,
		"mkdir src && cd src && truncate -s 1M hole && truncate -s 300000 middle && "
		"printf x | dd of=middle bs=1 seek=131072 conv=notrunc status=none && "
		"printf abc >ends && truncate -s 200000 ends && printf end >>ends && "
		"for i in 1 2 3 4; do printf $i | dd of=four bs=1 seek=${i}00000 conv=notrunc "
		"status=none; done && for i in $(seq 60); do head -c 4000 /dev/urandom | "
		"dd of=many bs=4000 count=1 seek=$((i * 32768)) oflag=seek_bytes iflag=fullblock "
		"conv=notrunc status=none; done && n=$(printf %0200d 7) && mkdir $n && "
		"cp --sparse=always ends $n/$n && echo plain >z && ln ends hard");
}

static void test_sparse_files_have_their_pieces(void **state)
{
	static const char *const names[] = { "hole", "middle", "ends", "four", "many", "hard" };
	char name[2 * 201];

	make_sparse(*state);
	snprintf(name, sizeof(name), "%0200d/%0200d", 7, 7);
	for (size_t i = 0; i < ARRAY_SIZE(sparse_formats); i++) {
		_cleanup_(archive_index_freep) struct archive_index *x = begin();
		_cleanup_(freep) char *command = NULL;
		_cleanup_(fd_closep) int fd = -1;

		assert_true(asprintf(&command, "tar %s -S -C src -cf t.tar .", sparse_formats[i]) >
			    0);
		unit_run_in(*state, command);
		assert_int_equal(scan(*state, x, 0, &fd), 0);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			check_sparse(*state, x, fd, names[k]);
		check_sparse(*state, x, fd, name);
		check_content(*state, x, fd, "z");
		assert_int_equal(look(x, "hole")->crc, 0);
		assert_int_equal(look(x, "many")->crc, 60);
	}
}

/* Pieces are reserved, and freed with the index; a piece is 16 bytes. */
static int count_reserved(void *arg, uint64_t bytes, struct error *err)
{
	*(uint64_t *)arg += bytes;
	return 0;
}

static void test_pieces_are_reserved(void **state)
{
	enum { N = 100000 };
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	struct member m = { .path = "f", .type = MEMBER_FILE, .size = 10 * N, .sparse = true };
	struct archive_counts counts;
	uint64_t reserved = 0;

	archive_index_set_reserve(x, count_reserved, &reserved);
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(archive_index_add_piece(x, 10 * i, 1, NULL), 0);
	assert_int_equal(archive_index_add(x, &m, 512, NULL), 0);
	assert_int_equal(archive_index_finish(x, NULL, NULL), 0);
	archive_index_get_counts(x, &counts);
	assert_in_range(reserved, 16 * N, 18 * N + 65536);
	assert_in_range(counts.memory, 16 * N, reserved + 1024);
}

static void compare(const struct archive_index *x, const struct archive_index *y)
{
	const struct archive_record *a, *b;
	uint64_t i = 0;

	for (; (a = archive_index_get(x, i)); i++) {
		b = archive_index_get(y, i);
		assert_non_null(b);
		assert_memory_equal(a, b, sizeof(*a));
		assert_string_equal(archive_index_get_text(x, a->name),
				    archive_index_get_text(y, b->name));
	}
	assert_null(archive_index_get(y, i));
}

/* Wherever the threads begin. */
static void check_ahead(const char *dir)
{
	_cleanup_(archive_index_freep) struct archive_index *x = begin();

	segment_size = 0;
	assert_int_equal(scan(dir, x, 0, NULL), 0);
	for (segment_size = 512; segment_size < 1 << 20; segment_size *= 4) {
		for (unsigned i = 0; i < 2; i++) {
			_cleanup_(archive_index_freep) struct archive_index *y = begin();

			is_fast = i > 0;
			assert_int_equal(scan(dir, y, 0, NULL), 0);
			compare(x, y);
		}
	}
	segment_size = 0;
	is_fast = false;
}

/* With archives in the archive, which are opened or not. */
static void test_headers_that_are_read_ahead_change_nothing(void **state)
{
	static const char *const formats[] = { "gnu", "posix", "v7" };

	unit_run_in(*state,
		    "mkdir -p src/d && for i in $(seq 60); do head -c $((i * 97)) /dev/urandom "
		    ">src/d/f$i; done && ln -s f1 src/d/link && tar -C src -cf in.tar . && "
		    "for i in 1 2 3; do cp in.tar src/$i.tar; ln src/d/f$i src/hard$i; done");
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		_cleanup_(freep) char *command = NULL;

		assert_true(asprintf(&command, "tar --format=%s -C src -cf t.tar .", formats[i]) >
			    0);
		unit_run_in(*state, command);
		check_ahead(*state);
		nested = true;
		check_ahead(*state);
		nested = false;
	}
}

/* The content of an inner tar's members is where the outer tar has it, also where the outer reader
 * has bytes of the inner one at hand, or beyond it. */
static void test_tars_in_a_tar_are_directories(void **state)
{
	static const char *const places[] = { "a/in/d/one", "a/in/big", "a/in/d/f1", "z/d/f300" };
	_cleanup_(archive_index_freep) struct archive_index *x = begin();
	_cleanup_(fd_closep) int fd = -1;

	make_tree(*state);
	unit_run_in(*state,
		    "mkdir -p t/a && tar -C src -cf t/a/in.tar . && cp t/a/in.tar t/z.tar && "
		    "tar -b 1 -C src -cf t/b.tar d/one && cp t/b.tar t/c.tar && "
		    "tar -C t -cf t.tar a b.tar c.tar z.tar && "
		    "for i in a/in b c z; do mkdir -p src/$i && tar -C src/$i -xf t/$i.tar; done");
	nested = true;
	assert_int_equal(scan(*state, x, 0, &fd), 0);
	nested = false;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		check_content(*state, x, fd, places[i]);
	check_content(*state, x, fd, "b/d/one");
	check_content(*state, x, fd, "c/d/one");
	assert_null(look(x, "z.tar"));
}

/* The same refusals, where they read ahead of what is refused. */
static void test_an_archive_that_is_cut_off_has_none_by_reading_ahead(void **state)
{
	segment_size = 2048;
	test_an_archive_that_is_cut_off_has_no_index(state);
	segment_size = 0;
}

static void test_an_archive_that_is_cut_off_has_none_where_reads_take_no_time(void **state)
{
	is_fast = true;
	segment_size = 2048;
	test_an_archive_that_is_cut_off_has_no_index(state);
	segment_size = 0;
	is_fast = false;
}

#define SCRATCH(test)                                                                              \
	cmocka_unit_test_setup_teardown(test, unit_scratch_setup, unit_scratch_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries_are_sorted_in_their_directories),
		cmocka_unit_test(test_sorted_names_come_again_or_in_between),
		cmocka_unit_test(test_sorting_many_entries_can_be_cancelled),
		cmocka_unit_test(test_the_memory_of_many_entries_is_reserved),
		cmocka_unit_test(test_without_memory_no_entry_is_added),
		cmocka_unit_test(test_the_last_of_a_name_counts),
		cmocka_unit_test(test_names_that_come_again_have_a_bound),
		cmocka_unit_test(test_what_extraction_refuses_is_refused),
		cmocka_unit_test(test_names_of_one_hash_are_not_compared_with_each_other),
		SCRATCH(test_content_is_found_in_all_dialects),
		SCRATCH(test_an_archive_that_is_cut_off_has_no_index),
		SCRATCH(test_sparse_files_have_their_pieces),
		cmocka_unit_test(test_pieces_are_reserved),
		SCRATCH(test_headers_that_are_read_ahead_change_nothing),
		SCRATCH(test_tars_in_a_tar_are_directories),
		SCRATCH(test_an_archive_that_is_cut_off_has_none_by_reading_ahead),
		SCRATCH(test_an_archive_that_is_cut_off_has_none_where_reads_take_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
