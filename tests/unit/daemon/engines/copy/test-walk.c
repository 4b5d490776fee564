#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "daemon/engines/copy/walk-internal.h"
#include "daemon/engines/copy/walk-kept.h"
#include "daemon/engines/copy/walk.h"

#define N_WIDE 1600 /* more directories than may be queued */

struct seen {
	unsigned n_dirs, n_files, n_left, n_data;
	uint64_t names; /* a sum over them */
	const char *stop_at;
};

static uint64_t hash(const char *path)
{
	uint64_t h = 14695981039346656037ULL;

	while (*path)
		h = (h ^ (unsigned char)*path++) * 1099511628211ULL;
	return h;
}

static int enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct seen *s = arg;

	s->n_dirs++;
	s->names += hash(dir->path);
	dir->user = s;
	return 0;
}

static int entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
		 struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct seen *s = arg;

	s->n_files++;
	s->names += hash(walk_path(dir, e->name, path)) * (uint64_t)(e->st.st_size + 1);
	if (s->stop_at && !strcmp(e->name, s->stop_at))
		return error_set(err, EIO, "stop at %s", e->name);
	return 0;
}

static void leave(struct walk *w, struct walk_dir *dir, void *arg)
{
	struct seen *s = arg;

	if (dir->user)
		s->n_left++;
}

static const struct walk_ops ops = { .enter = enter, .entry = entry, .leave = leave };

static int walk(const char *top, struct walk_kept *kept, bool keeping, struct seen *s)
{
	_cleanup_(walk_freep) struct walk *w = NULL;
	struct error err = ERROR_INIT;
	int fd = open(top, O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	assert_int_equal(walk_new(&w, NULL, NULL, &ops, s, &err), 0);
	if (kept && keeping)
		walk_set_keeping(w, kept);
	else if (kept)
		walk_set_kept(w, kept);
	assert_int_equal(walk_add_root(w, fd, "", &err), 0);
	return walk_run(w, 0, &err);
}

static void make_tree(const char *top)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd),
		 "cd '%s' && mkdir wide deep && cd wide && seq -f d%%g %d | xargs mkdir && "
		 "for i in 1 70 1500 1600; do echo $i >d$i/f; done && cd ../deep && "
		 "mkdir -p a/b/c/d/e && seq -f a/b/f%%g 2000 | xargs touch && echo x >a/b/c/d/e/x "
		 "&& "
		 "ln -s nowhere l",
		 top, N_WIDE);
	assert_int_equal(system(cmd), 0);
}

static void test_everything_is_seen_once_and_kept_the_same(void **state)
{
	/* all is kept; some; nothing */
	static const size_t sizes[] = { 8 << 20, 100 << 10, 0 };
	struct seen plain = { 0 };

	make_tree(*state);
	assert_int_equal(walk(*state, NULL, false, &plain), 0);
	assert_int_equal(plain.n_files, 4 + 2000 + 1 + 1);
	assert_int_equal(plain.n_dirs, 3 + N_WIDE + 5);
	assert_int_equal(plain.n_left, plain.n_dirs);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
		struct seen first = { 0 }, second = { 0 };

		assert_int_equal(walk_kept_new(&k, sizes[i]), 0);
		assert_int_equal(walk(*state, k, true, &first), 0);
		assert_memory_equal(&first, &plain, sizeof(plain));
		assert_int_equal(walk(*state, k, false, &second), 0);
		/* the size of a link is kept, too */
		assert_memory_equal(&second, &plain, sizeof(plain));
	}
}

static void test_what_came_since_is_seen(void **state)
{
	_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
	struct seen first = { 0 }, second = { 0 };
	char cmd[512];

	make_tree(*state);
	assert_int_equal(walk_kept_new(&k, 8 << 20), 0);
	assert_int_equal(walk(*state, k, true, &first), 0);
	usleep(20000); /* the file system's clock */
	snprintf(cmd, sizeof(cmd), "echo new >'%s/wide/d7/new' && rm '%s/deep/l'", (char *)*state,
		 (char *)*state);
	assert_int_equal(system(cmd), 0);
	assert_int_equal(walk(*state, k, false, &second), 0);
	assert_int_equal(second.n_files, first.n_files);
	assert_int_not_equal(second.names, first.names);
}

static void test_a_walk_that_failed_keeps_nothing(void **state)
{
	_cleanup_(walk_kept_freep) struct walk_kept *k = NULL;
	struct seen s = { .stop_at = "f77" };
	struct stat st;

	make_tree(*state);
	assert_int_equal(walk_kept_new(&k, 8 << 20), 0);
	assert_int_equal(walk(*state, k, true, &s), -EIO);
	assert_int_equal(s.n_left, s.n_dirs);
	assert_int_equal(stat(*state, &st), 0);
	assert_false(walk_kept_is_good(walk_kept_get_root(k), &st));
}

/* ---- a source that turns out to be slow ---- */

#define N_FLAT 300
#define A_FEW 4	       /* names that one thread has for itself */
#define PATIENCE 20000 /* ms, when it is broken */

struct turning {
	pthread_t reader;
	atomic_uint n_done;
	atomic_bool held;
	bool others_did_the_rest;
};

/* One more thread, which has nothing to do when the first names are read. */
static int turning_enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct turning *t = arg;

	t->reader = pthread_self();
	w->pace.max = COPY_CONCURRENCY_MAX;
	workq_grow(w->q, 2);
	while (workq_get_waiting(w->q) == 0)
		usleep(100);
	return 0;
}

/* The reader waits until it has turned out, by what the other one says. Who then has names of the
 * first batch waits for all others to be done; from its second name on, since with the first it may
 * have been called a moment before. */
static int turning_entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e,
			 void *arg, struct error *err)
{
	static _Thread_local unsigned n_slow;
	bool slow = atomic_load(&w->slow), reader;
	struct turning *t = arg;

	reader = pthread_equal(t->reader, pthread_self());
	for (int ms = 0; reader && !slow && ms < PATIENCE; ms++) {
		usleep(1000);
		slow = atomic_load(&w->slow);
	}
	if (!slow)
		walk_note_wait(w, 5000, 1);
	if (slow && !reader && n_slow++ > 0 && !atomic_exchange(&t->held, true)) {
		for (int ms = 0; !t->others_did_the_rest && ms < PATIENCE; ms++) {
			usleep(1000);
			t->others_did_the_rest = atomic_load(&t->n_done) >= N_FLAT - A_FEW;
		}
	}
	atomic_fetch_add(&t->n_done, 1);
	return 0;
}

/* Broken where run_batch() goes on with what is left of its 64 names: a tenth of a second for the
 * last thread, when all others have ended. */
static void test_names_taken_before_a_source_was_slow_are_shared_out(void **state)
{
	static const struct walk_ops turning_ops = { .enter = turning_enter,
						     .entry = turning_entry };
	_cleanup_(walk_freep) struct walk *w = NULL;
	struct error err = ERROR_INIT;
	struct turning t = { .n_done = 0 };
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "cd '%s' && seq -f f%%g %d | xargs touch", (char *)*state,
		 N_FLAT);
	assert_int_equal(system(cmd), 0);
	assert_int_equal(walk_new(&w, NULL, NULL, &turning_ops, &t, &err), 0);
	assert_int_equal(walk_add_root(w, open(*state, O_RDONLY | O_DIRECTORY), "", &err), 0);
	assert_int_equal(walk_run(w, 0, &err), 0);
	assert_int_equal(t.n_done, N_FLAT);
	assert_true(t.held);
	assert_true(t.others_did_the_rest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_everything_is_seen_once_and_kept_the_same,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_what_came_since_is_seen, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_walk_that_failed_keeps_nothing,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(
			test_names_taken_before_a_source_was_slow_are_shared_out,
			unit_scratch_setup, unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
