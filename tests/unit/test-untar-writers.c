#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/error.h"
#include "daemon/worker/block.h"
#include "daemon/worker/untar-reader.h"
#include "daemon/worker/untar-writers.h"

static const struct tree_meta meta = { .mode = 0644, .mtime = { 2000, 5 } };

struct fixture {
	int root;
	struct tree *tree;
	struct writers *writers;
};

static struct fixture start(void **state, unsigned n)
{
	struct fixture f;

	f.root = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.root >= 0);
	assert_int_equal(tree_new(&f.tree, f.root, NULL, NULL), 0);
	assert_int_equal(writers_new(&f.writers, f.tree, NULL, n, NULL), 0);
	return f;
}

static void stop(struct fixture *f)
{
	writers_free(f->writers);
	tree_free(f->tree);
	close(f->root);
}

static int add_bytes(struct fixture *f, const char *path, const void *data, size_t size,
		     size_t step)
{
	struct block *b;
	struct piece p;
	int r;

	r = writers_begin_file(f->writers, path, &meta, size, false, NULL);
	for (size_t at = 0; at < size && r == 0; at += p.size) {
		p = (struct piece){ .data = (const unsigned char *)data + at, .offset = at };
		p.size = size - at < step ? size - at : step;
		assert_int_equal(block_new_around(&b, p.data, p.size), 0);
		p.block = b;
		r = writers_add_piece(f->writers, &p, NULL);
		block_put(b);
		if (at % 3 == 0)
			writers_flush(f->writers);
	}
	return r < 0 ? r : writers_end_file(f->writers, NULL);
}

static int add_text(struct fixture *f, const char *path, const char *text)
{
	return add_bytes(f, path, text, strlen(text), 4096);
}

static ssize_t read_file(struct fixture *f, const char *path, char *buf, size_t size)
{
	_cleanup_(fd_closep) int fd = openat(f->root, path, O_RDONLY | O_NOFOLLOW);

	assert_true(fd >= 0);
	return read(fd, buf, size);
}

/* As many names as there are twice the room in the table of names, each several times, from
 * directories that move between writers. */
static void test_of_one_name_the_last_wins(void **state)
{
	struct fixture f = start(state, 4);
	static char text[2000][16], path[64], buf[64];
	struct tree_counts counts;

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 2000; i++) {
			snprintf(path, sizeof(path), "d%d/f%d", i % 7, i / 3);
			snprintf(text[i], sizeof(text[i]), "%d", i % 21);
			if (i % 5 == round % 5)
				assert_int_equal(writers_add_symlink(f.writers, path, "/etc/passwd",
								     &meta, NULL),
						 0);
			assert_int_equal(add_text(&f, path, text[i]), 0);
		}
	}
	assert_int_equal(writers_finish(f.writers, 0, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		snprintf(path, sizeof(path), "d%d/f%d", i % 7, i / 3);
		memset(buf, 0, sizeof(buf));
		assert_true(read_file(&f, path, buf, sizeof(buf)) > 0);
		assert_string_equal(buf, text[i]);
	}
	tree_get_counts(f.tree, &counts);
	assert_int_equal(counts.files, 2000);
	assert_int_equal(counts.replaced, 18000 + 10 * 400);
	stop(&f);
}

static void test_big_files_are_whole(void **state)
{
	static const size_t steps[] = { 1 << 20, 4096, 12345, 3 << 20 };
	struct fixture f = start(state, 2);
	size_t size = (5u << 20) + 77;
	char *data = malloc(size), *buf = malloc(size + 1), path[64];

	for (size_t i = 0; i < size; i++)
		data[i] = (char)(i * 2654435761u >> 13);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		snprintf(path, sizeof(path), "d/f%zu", i);
		assert_int_equal(add_bytes(&f, path, data, size, steps[i]), 0);
	}
	assert_int_equal(writers_finish(f.writers, 0, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		snprintf(path, sizeof(path), "d/f%zu", i);
		assert_int_equal(read_file(&f, path, buf, size + 1), (ssize_t)size);
		assert_memory_equal(buf, data, size);
	}
	free(data);
	free(buf);
	stop(&f);
}

/* A link is to what was there when it was said; what replaces that is another file. */
static void test_hard_links_are_in_order(void **state)
{
	struct fixture f = start(state, 4);
	char a[64], b[64], buf[8], texts[500][8]; /* which are read later */

	for (int i = 0; i < 500; i++) {
		snprintf(a, sizeof(a), "a%d/f", i % 11);
		snprintf(b, sizeof(b), "b%d/l%d", i % 13, i);
		snprintf(texts[i], sizeof(texts[i]), "%03d", i);
		assert_int_equal(add_bytes(&f, a, texts[i], 3, 3), 0);
		assert_int_equal(writers_add_hardlink(f.writers, b, a, NULL), 0);
	}
	assert_int_equal(writers_finish(f.writers, 0, NULL), 0);
	for (int i = 0; i < 500; i++) {
		snprintf(b, sizeof(b), "b%d/l%d", i % 13, i);
		assert_int_equal(read_file(&f, b, buf, sizeof(buf)), 3);
		assert_int_equal(atoi(buf), i);
	}
	stop(&f);
}

static void test_a_directory_waits_for_the_file_of_its_name(void **state)
{
	struct fixture f = start(state, 2);
	struct error err = ERROR_INIT;

	for (int i = 0; i < 300; i++)
		assert_int_equal(add_text(&f, "other/x", "1"), 0);
	assert_int_equal(add_text(&f, "a", "1"), 0);
	assert_int_equal(writers_begin_file(f.writers, "a/b", &meta, 0, false, &err), -EEXIST);
	assert_int_equal(writers_finish(f.writers, -EEXIST, &err), -EEXIST);
	stop(&f);
}

/* Whoever notices first. */
static void test_the_earliest_error_is_told(void **state)
{
	struct fixture f = start(state, 4);
	struct error err = ERROR_INIT;
	char name[300], path[400];
	int r = 0;

	memset(name, 'n', sizeof(name) - 1); /* no file system takes it */
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < 1000 && r == 0; i++) {
		snprintf(path, sizeof(path), "d%d/%s%d", i % 9, i >= 500 ? name : "f", i);
		r = add_text(&f, path, "x");
	}
	assert_int_equal(writers_finish(f.writers, -EIO, &err), -ENAMETOOLONG);
	assert_non_null(strstr(err.text, "create d5/nnn"));
	stop(&f);
}

/* More directories than are remembered, twice, with modes that forbid everything. */
static void test_forgotten_directories_come_again(void **state)
{
	struct tree_meta dir = { .mode = 0500, .mtime = { 1000, 0 } };
	struct fixture f = start(state, 2);
	static char path[300];
	struct stat st;
	mode_t mode;
	int n = 40000;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < n; i++) {
			snprintf(path, sizeof(path), "top%d/%0200d", i % 3, i);
			dir.mode = i % 2 ? 0500 : 0;
			if (round == 0)
				assert_int_equal(tree_add_dir(f.tree, path, &dir, NULL), 0);
			if (round == 1 && i % 50)
				continue;
			snprintf(path, sizeof(path), "top%d/%0200d/f%d", i % 3, i, round);
			assert_int_equal(add_text(&f, path, "x"), 0);
		}
	}
	assert_int_equal(tree_add_dir(f.tree, "top0/f", &dir, NULL), 0);
	assert_int_equal(writers_finish(f.writers, 0, NULL), 0);
	assert_int_equal(tree_finish(f.tree, &mode, NULL), 0);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "top%d/%0200d", i % 3, i);
		assert_int_equal(fstatat(f.root, path, &st, 0), 0);
		assert_int_equal(st.st_mode & 07777, i % 2 ? 0500 : 0);
		assert_int_equal(st.st_mtim.tv_sec, 1000);
		assert_int_equal(fchmodat(f.root, path, 0700, 0), 0);
		if (i % 50)
			continue;
		snprintf(path, sizeof(path), "top%d/%0200d/f1", i % 3, i);
		assert_int_equal(fstatat(f.root, path, &st, 0), 0);
	}
	stop(&f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, unit_scratch_setup, unit_scratch_teardown)
		T(test_of_one_name_the_last_wins),
		T(test_big_files_are_whole),
		T(test_hard_links_are_in_order),
		T(test_a_directory_waits_for_the_file_of_its_name),
		T(test_the_earliest_error_is_told),
		T(test_forgotten_directories_come_again),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
