#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/util/error.h"
#include "daemon/engines/archive/untar-reader.h"
#include "daemon/engines/archive/untar-writers.h"
#include "daemon/engines/copy/block.h"

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

static void end(struct fixture *f)
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

/* size bytes at `at` of fd: some of them lent, most of them left there, in pieces of step. */
static int add_left(struct fixture *f, const char *path, int fd, const char *data, size_t at,
		    size_t size, size_t step)
{
	size_t lent = size / 7, n;
	struct block *b;
	struct piece p;
	int r;

	r = writers_begin_file(f->writers, path, &meta, size, false, NULL);
	for (size_t done = 0; done < size && r == 0; done += n) {
		n = size - done < step ? size - done : step;
		if (done < lent) {
			n = n < lent - done ? n : lent - done;
			assert_int_equal(block_new_around(&b, data + at + done, n), 0);
		} else {
			assert_int_equal(block_new_left(&b, fd, at + done, n), 0);
		}
		p = (struct piece){ b, b->data, n, done };
		r = writers_add_piece(f->writers, &p, NULL);
		block_put(b);
	}
	return r < 0 ? r : writers_end_file(f->writers, NULL);
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
	end(&f);
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
	end(&f);
}

#define ARCHIVE_SIZE ((13u << 20) + 12345)

/* An archive's file of bytes that are different at each place. */
static char *make_archive(int *fdp)
{
	char *data = malloc(ARCHIVE_SIZE);

	assert_non_null(data);
	for (size_t i = 0; i < ARCHIVE_SIZE; i++)
		data[i] = (char)(i * 2654435761u >> 11);
	*fdp = memfd_create("archive", MFD_CLOEXEC);
	assert_true(*fdp >= 0);
	assert_int_equal(write(*fdp, data, ARCHIVE_SIZE), ARCHIVE_SIZE);
	return data;
}

/* Fails when parts are read from elsewhere, are given to nobody, or the file is closed before its
 * last helper is done. */
static void test_what_was_left_is_copied(void **state)
{
	static const struct {
		size_t at, size, step;
	} files[] = {
		{ 0, ARCHIVE_SIZE, ARCHIVE_SIZE }, /* several parts */
		{ 512, 9 << 20, 6 << 20 },	   /* not where huge pages begin */
		{ 1536, (5 << 20) + 1, 4 << 20 },
		{ 1024, 4096, 512 },
		{ 77, 1, 1 },
		{ ARCHIVE_SIZE - 5000000, 5000000, 4999999 },
	};
	static const unsigned n_threads[] = { 1, 2, 16 };
	char *data, *buf = malloc(ARCHIVE_SIZE + 1), path[64];
	struct fixture f;
	int fd;

	for (size_t k = 0; k < ARRAY_SIZE(n_threads); k++) {
		f = start(state, n_threads[k]);
		data = make_archive(&fd);
		for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
			snprintf(path, sizeof(path), "d%zu/f%zu", k, i);
			assert_int_equal(add_left(&f, path, fd, data, files[i].at, files[i].size,
						  files[i].step),
					 0);
			assert_int_equal(add_text(&f, "between", "x"), 0);
		}
		assert_int_equal(writers_finish(f.writers, 0, NULL), 0);
		for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
			snprintf(path, sizeof(path), "d%zu/f%zu", k, i);
			assert_int_equal(read_file(&f, path, buf, ARCHIVE_SIZE + 1),
					 (ssize_t)files[i].size);
			assert_memory_equal(buf, data + files[i].at, files[i].size);
		}
		free(data);
		close(fd);
		end(&f);
	}
	free(buf);
}

/* An archive that became shorter: whoever finds out, the member and those behind it fail, those
 * before it don't. Fails when what is read short is taken for done. */
static void test_what_was_left_and_is_gone_is_told(void **state)
{
	struct fixture f = start(state, 4);
	struct error err = ERROR_INIT;
	char *data, buf[8];
	int fd;

	data = make_archive(&fd);
	assert_int_equal(ftruncate(fd, 10 << 20), 0);
	assert_int_equal(add_text(&f, "before", "x"), 0);
	assert_int_equal(add_left(&f, "a/whole", fd, data, 512, 6 << 20, 6 << 20), 0);
	assert_int_equal(add_left(&f, "b/cut", fd, data, 512, ARCHIVE_SIZE - 512, ARCHIVE_SIZE), 0);
	assert_int_equal(writers_finish(f.writers, 0, &err), -ENODATA);
	assert_string_equal(err.text, "truncated tar archive");
	assert_int_equal(read_file(&f, "before", buf, sizeof(buf)), 1);
	free(data);
	close(fd);
	end(&f);
}

/* What is given up is waited for by nobody. */
static void test_left_parts_can_be_given_up(void **state)
{
	struct fixture f = start(state, 3);
	char *data;
	int fd;

	data = make_archive(&fd);
	for (int i = 0; i < 9; i++)
		assert_int_equal(add_left(&f, i % 2 ? "a/f" : "b/f", fd, data, 0, ARCHIVE_SIZE,
					  ARCHIVE_SIZE),
				 0);
	end(&f); /* without writers_finish() */
	free(data);
	close(fd);
}

/* A link is to what was there when it was said; what replaces that is another file. */
static void test_hard_links_are_in_order(void **state)
{
	struct fixture f = start(state, 4);
	char a[64], b[64], buf[8] = "", texts[500][8]; /* which are read later */

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
	end(&f);
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
	end(&f);
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
	end(&f);
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
	end(&f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, unit_scratch_setup, unit_scratch_teardown)
		T(test_of_one_name_the_last_wins),
		T(test_big_files_are_whole),
		T(test_what_was_left_is_copied),
		T(test_what_was_left_and_is_gone_is_told),
		T(test_left_parts_can_be_given_up),
		T(test_hard_links_are_in_order),
		T(test_a_directory_waits_for_the_file_of_its_name),
		T(test_the_earliest_error_is_told),
		T(test_forgotten_directories_come_again),
	};

	umask(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
