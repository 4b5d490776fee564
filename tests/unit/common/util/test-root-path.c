/*
 * Each case is a way on which somebody but root could exchange what is at its end. As root, because
 * the directories have to be root's.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/util/cleanup.h"
#include "common/util/root-path.h"

#define TOP "/run/test-root-path"

static void make(const char *name, mode_t mode, uid_t uid)
{
	char path[256];

	snprintf(path, sizeof(path), TOP "%s", name);
	assert_int_equal(mkdir(path, 0755), 0);
	assert_int_equal(chmod(path, mode), 0);
	assert_int_equal(chown(path, uid, uid), 0);
}

static void make_link(const char *text, const char *name, uid_t uid)
{
	char path[256];

	snprintf(path, sizeof(path), TOP "%s", name);
	assert_int_equal(symlink(text, path), 0);
	assert_int_equal(lchown(path, uid, uid), 0);
}

static void test_only_roots_way_is_gone(void **state)
{
	static const struct {
		const char *path;
		int expect;
	} cases[] = {
		{ TOP, 0 },
		{ TOP "//a/./b/", 0 },
		{ TOP "/absolute", 0 },
		{ TOP "/relative/b", 0 },
		{ TOP "/up", 0 },
		{ "/", 0 },
		{ TOP "/users", -EPERM },
		{ TOP "/users/roots", -EPERM },
		{ TOP "/sticky", -EPERM },
		{ TOP "/sticky/roots", -EPERM },
		{ TOP "/group", -EPERM },
		{ TOP "/link-of-users", -EPERM },
		{ TOP "/link-to-users", -EPERM },
		{ TOP "/a/../a", -EPERM },
		{ TOP "/..", -EPERM },
		{ "run", -EPERM },
		{ "", -EPERM },
		{ TOP "/none", -ENOENT },
		{ TOP "/file", -ENOTDIR },
		{ TOP "/loop", -ELOOP },
		{ "/proc/self/root/etc", 0 }, /* as text: from our own root */
		{ "/proc/self/fd/0/x", -ENOTDIR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(fd_closep) int fd = root_path_open(cases[i].path);

		if (strstr(cases[i].path, "/proc/self/fd"))
			assert_true(fd < 0);
		else
			assert_int_equal(fd < 0 ? fd : 0, cases[i].expect);
	}
}

/* No server is there: who asks it waits for ever. By fusermount a user chooses the source. */
static int mount_fuse(const char *where, unsigned uid)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40755,user_id=%u,group_id=%u,allow_other", fd, uid, uid);
	if (fd < 0 || mount(" - x,user_id=0,", where, "fuse.a", MS_NOSUID | MS_NODEV, options) < 0)
		return -1;
	return fd;
}

static void test_a_server_does_not_pose_as_root(void **state)
{
	_cleanup_(fd_closep) int users = -1, roots = -1, fd = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0)
		skip();
	users = mount_fuse(TOP "/a/b", 65534);
	roots = mount_fuse(TOP "/group", 0);
	if (users < 0 || roots < 0)
		skip();
	assert_int_equal(root_path_open(TOP "/a/b"), -EPERM);
	assert_int_equal(root_path_open(TOP "/a/b/below"),
			 -EPERM); /* 0 or waits where it is asked */
	assert_int_equal(root_path_open(TOP "/absolute/b"), -EPERM);
	fd = root_path_open(TOP "/group"); /* the site's */
	assert_true(fd >= 0);
	umount2(TOP "/a/b", MNT_DETACH);
	umount2(TOP "/group", MNT_DETACH);
}

static void test_the_end_is_the_one_that_was_named(void **state)
{
	static const char *const same[] = { TOP "/a/b", TOP "/absolute/b", TOP "/relative/b",
					    TOP "/up/b" };
	struct stat a, b;

	assert_int_equal(stat(TOP "/a/b", &a), 0);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		_cleanup_(fd_closep) int fd = root_path_open(same[i]);

		assert_int_equal(fstat(fd, &b), 0);
		assert_int_equal(a.st_ino, b.st_ino);
	}
}

static bool table_is_broken;

ssize_t __real_getline(char **line, size_t *size, FILE *f);
ssize_t __wrap_getline(char **line, size_t *size, FILE *f);

ssize_t __wrap_getline(char **line, size_t *size, FILE *f)
{
	if (!table_is_broken)
		return __real_getline(line, size, f);
	errno = ENOMEM;
	return -1;
}

/* What glibc's header makes of it */
ssize_t __real___getdelim(char **line, size_t *size, int end, FILE *f);
ssize_t __wrap___getdelim(char **line, size_t *size, int end, FILE *f);

ssize_t __wrap___getdelim(char **line, size_t *size, int end, FILE *f)
{
	if (!table_is_broken)
		return __real___getdelim(line, size, end, f);
	errno = ENOMEM;
	return -1;
}

/* The mounts that could not be read were taken for none. */
static void test_a_table_of_mounts_that_breaks_off_is_no_proof(void **state)
{
	_cleanup_(fd_closep) int fd = -1;
	int r;

	(void)state;
	fd = root_path_open("/proc/sys");
	assert_true(fd >= 0);
	table_is_broken = true;
	r = root_path_open("/proc/sys");
	table_is_broken = false;
	assert_int_equal(r, -EPERM);
}

/* It was cut to one that is there. */
static void test_a_name_that_is_too_long_is_refused(void **state)
{
	char name[NAME_MAX + 3] = "/", path[512];

	(void)state;
	memset(name + 1, 'a', NAME_MAX);
	snprintf(path, sizeof(path), TOP "%s", name);
	assert_int_equal(mkdir(path, 0755), 0);
	{
		_cleanup_(fd_closep) int fd = root_path_open(path);

		assert_true(fd >= 0);
	}
	strcat(path, "a");
	assert_int_equal(root_path_open(path), -ENAMETOOLONG);
}

static void test_a_files_name_is_a_name(void **state)
{
	static const struct {
		const char *path, *name;
		int expect;
	} cases[] = {
		{ TOP "/a/x.log", "x.log", 0 }, { "/x.log", "x.log", 0 },
		{ TOP "/a/", NULL, -EPERM },	{ TOP "/a/..", NULL, -EPERM },
		{ TOP "/a/.", NULL, -EPERM },	{ "x.log", NULL, -EPERM },
		{ "", NULL, -EPERM },		{ TOP "/sticky/x.log", NULL, -EPERM },
		{ TOP "/a/.ns", ".ns", 0 },	{ TOP "/a/..x", "..x", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *name = NULL;
		_cleanup_(fd_closep) int fd = root_path_open_above(cases[i].path, &name);

		assert_int_equal(fd < 0 ? fd : 0, cases[i].expect);
		if (fd >= 0)
			assert_string_equal(name, cases[i].name);
	}
}

static int set_up(void **state)
{
	if (geteuid() != 0)
		return 0;
	assert_int_equal(system("rm -rf " TOP), 0);
	make("", 0755, 0);
	make("/a", 0755, 0);
	make("/a/b", 0700, 0);
	make("/users", 0755, 65534);
	make("/users/roots", 0755, 0);
	make("/sticky", 01777, 0);
	make("/sticky/roots", 0755, 0);
	make("/group", 0775, 0);
	make_link(TOP "/a", "/absolute", 0);
	make_link("a", "/relative", 0);
	make_link("a/b/../../a", "/up", 0);
	make_link("a", "/link-of-users", 65534);
	make_link("users/roots", "/link-to-users", 0);
	make_link("loop", "/loop", 0);
	close(open(TOP "/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	return 0;
}

static int tear_down(void **state)
{
	return geteuid() == 0 ? system("rm -rf " TOP) : 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_roots_way_is_gone),
		cmocka_unit_test(test_the_end_is_the_one_that_was_named),
		cmocka_unit_test(test_a_table_of_mounts_that_breaks_off_is_no_proof),
		cmocka_unit_test(test_a_name_that_is_too_long_is_refused),
		cmocka_unit_test(test_a_files_name_is_a_name),
		cmocka_unit_test(test_a_server_does_not_pose_as_root),
	};

	if (geteuid() != 0)
		return 77;
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
