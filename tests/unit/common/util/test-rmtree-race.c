/*
 * Somebody exchanges directories with symbolic links, again and again, while their tree is removed:
 * nothing behind a link is removed or changed. What breaks it: no O_NOFOLLOW in rmtree's
 * open_dir().
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/util/fd.h"
#include "common/util/rmtree.h"
#include "tests/unit/race.h"

#define N_ROUNDS 100000
#define N_PAIRS 16

struct swapper {
	pthread_t thread;
	int dirfd;
	const char *a, *b; /* with %d for the number of a pair */
	atomic_bool end;
	atomic_ulong n;
};

static void *swap(void *arg)
{
	struct swapper *s = arg;
	char a[32], b[32];

	for (int i = 0; !s->end; i = (i + 1) % N_PAIRS) {
		snprintf(a, sizeof(a), s->a, i);
		snprintf(b, sizeof(b), s->b, i);
		for (int k = 0; k < 16; k++)
			if (syscall(SYS_renameat2, s->dirfd, a, s->dirfd, b, RENAME_EXCHANGE) == 0)
				s->n++;
	}
	return NULL;
}

static void begin(struct swapper *s, int dirfd, const char *a, const char *b)
{
	*s = (struct swapper){ .dirfd = dirfd, .a = a, .b = b };
	assert_int_equal(pthread_create(&s->thread, NULL, swap, s), 0);
}

static void end(struct swapper *s)
{
	s->end = true;
	pthread_join(s->thread, NULL);
}

/* Pairs x0 y0, x1 y1, … in tree: x with a file in it and closed to its owner, y a link. All by
 * descriptors: what plants is not to fall for it either. */
static void plant(int top)
{
	_cleanup_(fd_closep) int tree = -1;
	char name[8], path[32];

	if (mkdirat(top, "tree", 0700) < 0 && errno != EEXIST)
		fail_msg("mkdir: %d", errno);
	tree = openat(top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(tree >= 0);
	for (int i = 0; i < N_PAIRS; i++) {
		_cleanup_(fd_closep) int x = -1;

		snprintf(name, sizeof(name), "y%d", i);
		assert_true(symlinkat("../victim", tree, name) == 0 || errno == EEXIST);
		snprintf(name, sizeof(name), "x%d", i);
		(void)mkdirat(tree, name, 0700);
		x = openat(tree, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (x < 0)
			continue; /* the link is there now */
		(void)mknodat(x, "f", S_IFREG | 0600, 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", x);
		assert_int_equal(chmod(path, 0), 0);
	}
}

/* Is what lies behind the links as it was? */
static bool is_whole(int top)
{
	struct stat st, file;

	return fstatat(top, "victim", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (st.st_mode & 07777) == 0500 &&
	       fstatat(top, "victim/f", &file, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool remove_in_a_race(int top)
{
	const struct rmtree_limits limits = { .deadline_ms = clock_ms() + 60000 };
	struct swapper s;
	bool whole = true;

	assert_int_equal(mkdirat(top, "victim", 0700), 0);
	assert_int_equal(mknodat(top, "victim/f", S_IFREG | 0600, 0), 0);
	assert_int_equal(fchmodat(top, "victim", 0500, 0), 0);
	begin(&s, top, "tree/x%d", "tree/y%d");
	while (s.n < N_ROUNDS && whole) {
		plant(top);
		(void)rmtree_at(top, "tree", &limits, NULL);
		whole = is_whole(top);
	}
	end(&s);
	return whole;
}

static void test_what_is_removed_is_beneath(void **state)
{
	_cleanup_(fd_closep) int top = open(*state, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool root = geteuid() == 0, whole;

	/* Root is let in everywhere: what is closed is opened up for users alone. */
	if (root)
		assert_int_equal(chown(*state, 65534, 65534), 0);
	assert_int_equal(root ? seteuid(65534) : 0, 0);
	whole = remove_in_a_race(top);
	assert_int_equal(root ? seteuid(0) : 0, 0);
	assert_true(whole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_is_removed_is_beneath, unit_scratch_setup,
						unit_scratch_teardown),
	};

	/* A disk would be asked for each exchange. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 0);
	return cmocka_run_group_tests(tests, race_without_link_protection, NULL);
}
