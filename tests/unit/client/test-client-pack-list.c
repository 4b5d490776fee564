#include "client/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/progress-bar.h"
#include "client/tar-writer.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/rmtree.h"

static char dir[] = "/tmp/test-pack-list-XXXXXX";
static int dirfd_;

static void touch(const char *path)
{
	int fd = openat(dirfd_, path, O_WRONLY | O_CREAT, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, path, strlen(path)), (ssize_t)strlen(path));
	close(fd);
}

static int setup(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY);
	return dirfd_ < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);
	int r = rmtree_at(tmp, strrchr(dir, '/') + 1, NULL, NULL);

	close(tmp);
	close(dirfd_);
	return r;
}

static void test_samples_stay_together_whatever_sorts_between(void **state)
{
	static const char *const expected[] = {
		".hidden.x",  "a",	     "a.jpg",	   "a.seg.png", "a-1.jpg",
		"d.v1/b.jpg", "d.v1/b.json", "d.v1/c.jpg", "z.txt",
	};
	static const size_t groups[] = { 1, 3, 0, 0, 1, 2, 0, 1, 1 };
	_cleanup_(pack_list_deinit) struct pack_list l = { 0 };
	size_t n = sizeof(expected) / sizeof(expected[0]);

	assert_int_equal(mkdirat(dirfd_, "d.v1", 0755), 0);
	for (size_t i = n; i-- > 0;)
		touch(expected[i]);
	assert_int_equal(symlinkat("nowhere", dirfd_, "dangling"), 0);
	assert_int_equal(symlinkat("d.v1", dirfd_, "to-dir"), 0);
	assert_int_equal(mkfifoat(dirfd_, "fifo", 0600), 0);
	assert_int_equal(pack_list_read(&l, dirfd_, NULL), 0);
	assert_int_equal(l.n_files, n);
	assert_int_equal(l.n_skipped, 3);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(l.files[i].path, expected[i]);
		assert_int_equal(l.files[i].size, strlen(expected[i]));
		if (groups[i])
			assert_int_equal(pack_list_get_group(&l, i), groups[i]);
	}
}

static void test_links_to_files_are_files(void **state)
{
	_cleanup_(pack_list_deinit) struct pack_list l = { 0 };
	size_t before;

	assert_int_equal(pack_list_read(&l, dirfd_, NULL), 0);
	before = l.n_files;
	pack_list_deinit(&l);
	assert_int_equal(symlinkat("z.txt", dirfd_, "zz.txt"), 0);
	assert_int_equal(pack_list_read(&l, dirfd_, NULL), 0);
	assert_int_equal(l.n_files, before + 1);
	assert_string_equal(l.files[before].path, "zz.txt");
	assert_int_equal(l.files[before].size, 5);
}

/* Seen failing with one name for all that work without a lock: the second one began anew in the
 * first one's file, and renamed it. */
static void test_without_a_lock_nobody_writes_to_anothers_shards(void **state)
{
	struct progress *progress = NULL;
	char out[64], text[16] = "";
	struct pack p = { .dir = dir, .out = out };
	int fd;

	snprintf(out, sizeof(out), "%s.out", dir);
	for (int locked = 0; locked < 2; locked++) {
		_cleanup_(freep) char *tmp = NULL, *tar = NULL;

		assert_true(asprintf(&tmp, "%s-000000.tar.tmp", out) > 0);
		assert_true(asprintf(&tar, "%s-000000.tar", out) > 0);
		fd = open(tmp, O_RDWR | O_CREAT | O_EXCL, 0644);
		assert_int_equal(write(fd, "half", 4), 4);
		assert_int_equal(progress_new(&progress, stderr, PROGRESS_NONE), 0);
		p.progress = progress;
		p.shard_size = 1 << 20;
		p.locked = locked; /* then it was left by one that was killed */
		assert_int_equal(pack_shards(&p, NULL), 0);
		progress_free(progress);
		assert_int_equal(access(tar, R_OK), 0);
		assert_int_equal(access(tmp, F_OK), locked ? -1 : 0);
		assert_int_equal(unlink(tar), 0);
		if (!locked) {
			assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), 4);
			assert_string_equal(text, "half");
			assert_int_equal(unlink(tmp), 0);
		}
		close(fd);
	}
}

enum { GROWS, SHRINKS, IS_WRITTEN_TO, IS_REPLACED, BECOMES_A_FIFO, STAYS, N_CHANGES };

static void change(int how)
{
	const struct timespec later[2] = { { .tv_nsec = UTIME_OMIT }, { 1000, 1 } };
	int fd = openat(dirfd_, "z.txt", O_WRONLY);

	assert_true(fd >= 0);
	switch (how) {
	case GROWS:
		assert_int_equal(ftruncate(fd, 6), 0);
		assert_int_equal(futimens(fd, (struct timespec[]){ later[0], { 1000, 0 } }), 0);
		break;
	case SHRINKS:
		assert_int_equal(ftruncate(fd, 4), 0);
		break;
	case IS_WRITTEN_TO:
		assert_int_equal(futimens(fd, later), 0);
		break;
	case IS_REPLACED:
		touch("new");
		assert_int_equal(renameat(dirfd_, "new", dirfd_, "z.txt"), 0);
		break;
	case BECOMES_A_FIFO:
		assert_int_equal(unlinkat(dirfd_, "z.txt", 0), 0);
		assert_int_equal(mkfifoat(dirfd_, "z.txt", 0600), 0);
		break;
	}
	close(fd);
}

static bool change_at_first_step(void *arg, size_t n)
{
	change(*(int *)arg);
	return true;
}

/* Packs z.txt, which changes after it was listed, or, if late, after it was read. */
static int pack_changing(int how, bool late, struct error *err)
{
	static char buffer[PACK_BUFFER];
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 1000, 0 } };
	_cleanup_(pack_list_deinit) struct pack_list l = { 0 };
	_cleanup_(tar_writer_freep) struct tar_writer *w = NULL;
	_cleanup_(fd_closep) int out = memfd_create("tar", 0);
	size_t i = 0;

	(void)unlinkat(dirfd_, "z.txt", 0);
	touch("z.txt");
	assert_int_equal(utimensat(dirfd_, "z.txt", times, 0), 0);
	assert_int_equal(tar_writer_new(&w, out), 0);
	assert_int_equal(pack_list_read(&l, dirfd_, NULL), 0);
	while (strcmp(l.files[i].path, "z.txt") != 0)
		i++;
	if (!late)
		change(how);
	return pack_list_put(&l.files[i], w, dirfd_, buffer, late ? change_at_first_step : NULL,
			     &how, err);
}

/* Seen failing when only a file that became shorter was refused: of a file that had grown, the
 * bytes up to its old size were packed. */
static void test_a_file_that_changes_while_it_is_packed_is_refused(void **state)
{
	for (int how = 0; how < N_CHANGES; how++) {
		for (int late = 0; late < 2; late++) {
			bool same = how == STAYS || (late && how >= IS_REPLACED);
			struct error err = ERROR_INIT;

			assert_int_equal(pack_changing(how, late, &err), same ? 0 : -ESTALE);
			if (!same)
				assert_string_equal(err.text,
						    "z.txt changed while it was packed; pack again "
						    "when nothing writes to it");
		}
	}
}

/* Looks whether one of this process's regular files has O_NONBLOCK. */
static bool look_for_nonblock(void *arg, size_t n)
{
	struct stat st;

	for (int fd = 3; fd < 64; fd++)
		if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			*(bool *)arg |= fcntl(fd, F_GETFL) & O_NONBLOCK;
	return true;
}

/* Seen failing when the flag stayed: some file systems then refuse to read a file that is on tape
 * or locked by another node (EAGAIN). */
static void test_a_file_is_read_with_waiting(void **state)
{
	static char buffer[PACK_BUFFER];
	_cleanup_(pack_list_deinit) struct pack_list l = { 0 };
	_cleanup_(tar_writer_freep) struct tar_writer *w = NULL;
	_cleanup_(fd_closep) int out = memfd_create("tar", 0);
	bool found = false;
	size_t i = 0;

	(void)unlinkat(dirfd_, "z.txt", 0);
	touch("z.txt");
	assert_int_equal(tar_writer_new(&w, out), 0);
	assert_int_equal(pack_list_read(&l, dirfd_, NULL), 0);
	while (strcmp(l.files[i].path, "z.txt") != 0)
		i++;
	assert_int_equal(
		pack_list_put(&l.files[i], w, dirfd_, buffer, look_for_nonblock, &found, NULL), 0);
	assert_false(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples_stay_together_whatever_sorts_between),
		cmocka_unit_test(test_links_to_files_are_files),
		cmocka_unit_test(test_a_file_that_changes_while_it_is_packed_is_refused),
		cmocka_unit_test(test_a_file_is_read_with_waiting),
		cmocka_unit_test(test_without_a_lock_nobody_writes_to_anothers_shards),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
