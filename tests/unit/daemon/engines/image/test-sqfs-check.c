/*
 * Damaged images: 500 with changed bytes, and each kind of damage by hand. The reader is run in
 * this process as well as in the check's child: nothing may crash it, whatever the check would say.
 */
#include "tests/unit/daemon/engines/image/sqfs-unit.h"

#include "common/util/fd.h"
#include "common/util/le.h"
#include "daemon/engines/image/sqfs-check.h"

enum { MUTATIONS = 500, MAX_ENTRIES = 3000, HANG_MS = 5000 };

struct image_copy {
	uint8_t *data;
	size_t size;
	int fd; /* where changed copies go */
};

static struct image_copy copy;

static void write_image(size_t size)
{
	assert_int_equal(ftruncate(copy.fd, 0), 0);
	assert_int_equal(pwrite(copy.fd, copy.data, size, 0), size);
}

/* At most 128 KiB. */
static void read_file(struct sqfs_image *img, const struct sqfs_inode *inode, uint64_t pos,
		      size_t size)
{
	static uint8_t stored[131072];
	struct volume_extent x[40];
	size_t n;

	if (sqfs_file_read(img, inode, pos, size, x, &n) < 0)
		return;
	(void)sqfs_file_load(img, x, n, stored);
	sqfs_file_release(img, x, n);
}

/* Reads all that can be read, entries bounded; content is not looked at. */
static void read_dir(struct sqfs_image *img, uint64_t ref, int depth, size_t *budget)
{
	struct sqfs_inode inode, child;
	struct sqfs_dirent ent, found;
	struct sqfs_dir d;

	if (depth > 150 || sqfs_inode_load(img, ref, &inode) < 0 ||
	    sqfs_dir_begin(&d, img, &inode, SQFS_DIR_START) < 0)
		return;
	while (*budget > 0 && sqfs_dir_read(&d, &ent) == 1) {
		char text[SQFS_MAX_SYMLINK + 1];

		(*budget)--;
		(void)sqfs_dir_find(img, &inode, ent.name, &found);
		if (sqfs_inode_load(img, ent.ref, &child) < 0)
			continue;
		(void)sqfs_inode_read_link(img, &child, text);
		for (uint64_t pos = 0; pos < child.size && pos < 500000; pos += 131072)
			read_file(img, &child, pos, 131072);
		read_file(img, &child, child.size - 1, 1);
		if (child.type == SQFS_TYPE_DIR)
			read_dir(img, ent.ref, depth + 1, budget);
	}
	sqfs_dir_end(&d);
}

/* Both ways through the image in copy.fd; what the check said. */
static int try_image(struct error *err)
{
	_cleanup_(sqfs_image_closep) struct sqfs_image *img = NULL;
	uint64_t start = clock_ms();
	struct sqfs_counts counts;
	size_t budget = MAX_ENTRIES;
	int r;

	r = sqfs_check_run(copy.fd, &counts, NULL, NULL, err);
	assert_true(clock_ms() - start < HANG_MS);
	if (r < 0 && strstr(err->text, "signal"))
		fail_msg("the check's child: %s", err->text);
	if (sqfs_image_open(&img, copy.fd, 4 << 20, NULL) == 0)
		read_dir(img, sqfs_inode_get_root(img), 0, &budget);
	return r;
}

static int group_setup(void **state)
{
	char path[4096];
	struct stat st;
	int fd;

	if (unit_scratch_setup(state) < 0)
		return -1;
	sqfs_unit_tree(*state, 300);
	/* plain metadata, so that a changed byte is a changed field and not a broken stream */
	if (!sqfs_unit_pack(*state, "-noI -b 4096"))
		return 0;
	fd = sqfs_unit_open(*state);
	if (fstat(fd, &st) < 0)
		return -1;
	copy.size = (size_t)st.st_size;
	copy.data = malloc(copy.size);
	if (!copy.data || pread(fd, copy.data, copy.size, 0) != (ssize_t)copy.size)
		return -1;
	close(fd);
	snprintf(path, sizeof(path), "%s/changed", (char *)*state);
	copy.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return copy.fd < 0 ? -1 : 0;
}

static int group_teardown(void **state)
{
	free(copy.data);
	if (copy.fd > 0)
		close(copy.fd);
	return unit_scratch_teardown(state);
}

static void test_the_image_itself_is_fine(void **state)
{
	struct error err = ERROR_INIT;

	if (!copy.data)
		skip();
	write_image(copy.size);
	if (try_image(&err) < 0)
		fail_msg("%s", err.text);
}

static void test_changed_bytes_crash_and_hang_nothing(void **state)
{
	size_t meta, n_refused = 0;
	unsigned seed = 4711;

	if (!copy.data)
		skip();
	meta = (size_t)le_u64(copy.data + 64);
	for (int i = 0; i < MUTATIONS; i++) {
		uint8_t old[8];
		size_t at[8], n = 1 + (size_t)i % 8;
		struct error err = ERROR_INIT;

		for (size_t k = 0; k < n; k++) {
			seed = seed * 1103515245u + 12345u;
			at[k] = i % 10 == 0 ? (seed >> 8) % SQFS_SUPER_SIZE
					    : meta + (seed >> 4) % (copy.size - meta);
			old[k] = copy.data[at[k]];
			copy.data[at[k]] = i % 3 ? (uint8_t)(seed >> 16) : 0xff;
		}
		write_image(copy.size);
		n_refused += try_image(&err) < 0;
		for (size_t k = n; k-- > 0;)
			copy.data[at[k]] = old[k];
	}
	/* most of these bytes mean something */
	assert_in_range(n_refused, MUTATIONS / 5, MUTATIONS);
}

static void test_cut_images_are_refused(void **state)
{
	const size_t cuts[] = { 0, 1, 95, 96, 97, 4096 };
	size_t used;

	if (!copy.data)
		skip();
	used = (size_t)le_u64(copy.data + 40);
	for (size_t i = 0; i < ARRAY_SIZE(cuts); i++) {
		struct error err = ERROR_INIT;

		write_image(cuts[i]);
		assert_true(try_image(&err) < 0);
		write_image(used - 1 - cuts[i]);
		assert_int_equal(try_image(&err), -EIO);
		assert_non_null(strstr(err.text, "truncated"));
	}
}

/* Finds the entry of a name in the directory table, which is not compressed. */
static uint8_t *find_dirent(const char *name)
{
	uint8_t *p = memmem(copy.data, copy.size, name, strlen(name));

	assert_non_null(p);
	return p - 8;
}

static void expect_damage(const char *words)
{
	struct error err = ERROR_INIT;

	write_image(copy.size);
	assert_int_equal(try_image(&err), -EIO);
	if (!strstr(err.text, "image is damaged") || !strstr(err.text, words))
		fail_msg("'%s' has no '%s'", err.text, words);
}

static void test_bad_names_are_damage(void **state)
{
	uint8_t *p, old[16];

	if (!copy.data)
		skip();
	p = find_dirent("size-4096");
	memcpy(old, p, sizeof(old));
	p[6] = 0xff; /* the length */
	p[7] = 0x1f;
	expect_damage("listing");
	memcpy(p, old, sizeof(old));
	p[8 + 4] = '/';
	expect_damage("listing");
	p[8 + 4] = '\0';
	expect_damage("listing");
	memcpy(p, old, sizeof(old));
}

static void test_a_directory_in_itself_is_damage(void **state)
{
	uint8_t *p = NULL, *q;
	uint8_t old[6];

	if (!copy.data)
		skip();
	/* the entry "deep99" gets what the entry of its parent says: same inode, by number too */
	p = find_dirent("deep99");
	q = find_dirent("deep98");
	memcpy(old, p, sizeof(old));
	memcpy(p, q, sizeof(old));
	/* run headers stand in front of both: block and base number */
	memcpy(p - 8, q - 8, 8);
	expect_damage("a directory inside itself");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_image_itself_is_fine),
		cmocka_unit_test(test_changed_bytes_crash_and_hang_nothing),
		cmocka_unit_test(test_cut_images_are_refused),
		cmocka_unit_test(test_bad_names_are_damage),
		cmocka_unit_test(test_a_directory_in_itself_is_damage),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
