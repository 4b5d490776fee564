#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/protocol/manifest.h"

static char unmounted[256];

static int fake_unmount(const char *target, struct error *err)
{
	snprintf(unmounted + strlen(unmounted), sizeof(unmounted) - strlen(unmounted), "%s;",
		 target);
	return 0;
}

static char *in(void **state, const char *name)
{
	char *path;

	assert_true(asprintf(&path, "%s/%s", (char *)*state, name) > 0);
	return path;
}

static void test_release_walks_backwards_and_may_be_repeated(void **state)
{
	_cleanup_(freep) char *file = in(state, "manifest"), *a = in(state, "a"),
			      *odd = in(state, "odd\nname\\"), *never = in(state, "never");
	_cleanup_(manifest_closep) struct manifest *m = NULL;

	assert_int_equal(manifest_open(&m, file, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_MOUNT, "/first", NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, a, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, odd, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, never, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_MOUNT, "/last", NULL), 0);
	assert_int_equal(mkdir(a, 0700), 0);
	assert_int_equal(mkdir(odd, 0700), 0);
	unmounted[0] = '\0';
	assert_int_equal(manifest_release(file, fake_unmount, NULL), 0);
	assert_string_equal(unmounted, "/last;/first;");
	assert_int_equal(access(a, F_OK), -1);
	assert_int_equal(access(odd, F_OK), -1);
	assert_int_equal(manifest_release(file, fake_unmount, NULL), 0);
	assert_string_equal(unmounted, "/last;/first;"); /* not again */
}

static void lease(void **state, const char *file, const char *name)
{
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	_cleanup_(freep) char *path = in(state, name), *manifest = in(state, file);
	FILE *f;

	assert_int_equal(manifest_open(&m, manifest, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_LEASE, path, NULL), 0);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

static int release(void **state, const char *file)
{
	_cleanup_(freep) char *manifest = in(state, file);

	return manifest_release(manifest, fake_unmount, NULL);
}

static bool is_there(void **state, const char *name)
{
	_cleanup_(freep) char *path = in(state, name);

	return access(path, F_OK) == 0;
}

static void make_shared(void **state)
{
	_cleanup_(freep) char *job = in(state, "job"), *dir = in(state, "job/x-1"),
			      *data = in(state, "job/x-1/data");

	assert_int_equal(mkdir(job, 0700), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkdir(data, 0700), 0);
	lease(state, "m1", "job/x-1/use.n1");
	lease(state, "m2", "job/x-1/use.n2");
}

/* Fails when the first node that leaves removes what others use, and when the last one leaves
 * something. */
static void test_the_last_lease_takes_the_directory_along(void **state)
{
	make_shared(state);
	assert_int_equal(release(state, "m1"), 0);
	assert_false(is_there(state, "job/x-1/use.n1"));
	assert_true(is_there(state, "job/x-1/data"));
	assert_int_equal(release(state, "m1"), 0);
	assert_true(is_there(state, "job/x-1/data"));
	assert_int_equal(release(state, "m2"), 0);
	assert_false(is_there(state, "job"));
}

static void test_a_lease_that_was_broken_off_is_given_back_again(void **state)
{
	_cleanup_(freep) char *from = in(state, "job/x-1"), *to = in(state, "job/.x-1.use.n2"),
			      *other = in(state, "job/y-1");

	make_shared(state);
	assert_int_equal(release(state, "m1"), 0);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(release(state, "m2"), 0);
	assert_false(is_there(state, "job/.x-1.use.n2"));
	assert_true(is_there(state, "job/y-1")); /* another dataset of the job */
}

/* The manifest is the user's. Fails when what is no lease is taken for one. */
static void test_what_is_no_lease_is_refused(void **state)
{
	static const char *const wrong[] = { "job/x-1/data", "use.n1", "job/x-1/use.n1/" };
	_cleanup_(freep) char *file = in(state, "m3");

	make_shared(state);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		_cleanup_(manifest_closep) struct manifest *m = NULL;
		_cleanup_(freep) char *path = i == 1 ? strdup("/use.n1") : in(state, wrong[i]);

		assert_int_equal(manifest_open(&m, file, NULL), 0);
		assert_int_equal(manifest_add(m, MANIFEST_LEASE, path, NULL), 0);
		assert_int_equal(manifest_release(file, fake_unmount, NULL), -EINVAL);
		assert_int_equal(unlink(file), 0);
	}
	assert_true(is_there(state, "job/x-1/data"));
}

/* The directory is the user's. Hangs where what is no file is opened, or read, as one. */
static void test_what_is_no_file_is_no_manifest(void **state)
{
	_cleanup_(freep) char *file = in(state, "manifest"), *fifo = in(state, "manifest.x");

	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(manifest_release(fifo, fake_unmount, NULL), -EINVAL);
	assert_int_equal(mkdir(file, 0700), 0);
	assert_int_equal(manifest_release(file, fake_unmount, NULL), -EISDIR);
	assert_int_equal(manifest_release_all(*state, fake_unmount, NULL), -EINVAL);
}

static void test_a_torn_line_is_passed_over(void **state)
{
	_cleanup_(freep) char *file = in(state, "manifest"), *a = in(state, "a");
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	int fd;

	assert_int_equal(manifest_open(&m, file, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, a, NULL), 0);
	fd = open(file, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "tree /", 6), 6);
	close(fd);
	assert_int_equal(mkdir(a, 0700), 0);
	assert_int_equal(manifest_release(file, NULL, NULL), 0);
	assert_int_equal(access(a, F_OK), -1);
}

/* The line behind it was taken for its rest, and what that names stayed for ever. */
static void test_what_comes_behind_a_torn_line_is_on_record(void **state)
{
	_cleanup_(freep) char *file = in(state, "manifest"), *a = in(state, "a"),
			      *b = in(state, "b"), *c = in(state, "c");
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	struct rlimit all, few;
	struct stat st;
	int fd;

	assert_int_equal(manifest_open(&m, file, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, a, NULL), 0);
	assert_int_equal(stat(file, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
	few = (struct rlimit){ (rlim_t)st.st_size + 7, all.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0); /* as a file system that is full */
	assert_int_equal(manifest_add(m, MANIFEST_TREE, "/is/not/made", NULL), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, b, NULL), 0);
	manifest_close(m);
	fd = open(file, O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "tree /", 6), 6); /* who was killed */
	close(fd);
	assert_int_equal(manifest_open(&m, file, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, c, NULL), 0);
	assert_int_equal(mkdir(a, 0700) | mkdir(b, 0700) | mkdir(c, 0700), 0);
	assert_int_equal(manifest_release(file, NULL, NULL), 0);
	assert_int_equal(access(a, F_OK), -1);
	assert_int_equal(access(b, F_OK), -1);
	assert_int_equal(access(c, F_OK), -1);
}

static void test_what_is_no_record_is_refused(void **state)
{
	_cleanup_(freep) char *file = in(state, "manifest");
	_cleanup_(manifest_closep) struct manifest *m = NULL;
	FILE *f;

	assert_int_equal(manifest_open(&m, file, NULL), 0);
	assert_int_equal(manifest_add(m, MANIFEST_TREE, "relative", NULL), -EINVAL);
	f = fopen(file, "w");
	fputs("tree /\nother /x\ngarbage\n\n", f);
	fclose(f);
	assert_int_equal(manifest_release(file, NULL, NULL), -EINVAL);
	assert_int_equal(manifest_release("/nowhere/manifest", NULL, NULL), 0);
}

static void test_all_of_a_directory_the_common_one_last(void **state)
{
	static const char *const names[] = { "manifest", "manifest.b", "manifest.a", "manifested" };
	_cleanup_(freep) char *nowhere = in(state, "nowhere");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_(freep) char *file = in(state, names[i]);
		_cleanup_(manifest_closep) struct manifest *m = NULL;
		char target[64];

		snprintf(target, sizeof(target), "/%s", names[i]);
		assert_int_equal(manifest_open(&m, file, NULL), 0);
		assert_int_equal(manifest_add(m, MANIFEST_MOUNT, target, NULL), 0);
	}
	unmounted[0] = '\0';
	assert_int_equal(manifest_release_all(*state, fake_unmount, NULL), 0);
	assert_non_null(strstr(unmounted, "/manifest.a;"));
	assert_non_null(strstr(unmounted, "/manifest.b;"));
	assert_null(strstr(unmounted, "manifested"));
	assert_string_equal(unmounted + strlen(unmounted) - 10, "/manifest;");
	assert_int_equal(manifest_release_all(nowhere, fake_unmount, NULL), 0);
}

int main(void)
{
#define SCRATCH(f) cmocka_unit_test_setup_teardown(f, unit_scratch_setup, unit_scratch_teardown)
	const struct CMUnitTest tests[] = {
		SCRATCH(test_release_walks_backwards_and_may_be_repeated),
		SCRATCH(test_the_last_lease_takes_the_directory_along),
		SCRATCH(test_a_lease_that_was_broken_off_is_given_back_again),
		SCRATCH(test_what_is_no_lease_is_refused),
		SCRATCH(test_what_is_no_file_is_no_manifest),
		SCRATCH(test_a_torn_line_is_passed_over),
		SCRATCH(test_what_comes_behind_a_torn_line_is_on_record),
		SCRATCH(test_what_is_no_record_is_refused),
		SCRATCH(test_all_of_a_directory_the_common_one_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
