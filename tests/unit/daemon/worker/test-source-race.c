/*
 * A component of a source's path is swapped all the time while the path is checked and opened: what
 * is opened is what was checked. Red when allowed_open_path() opens the path again, and not the
 * inode that it looked at.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "daemon/engines/copy/rule-patterns.h"
#include "daemon/worker/source.h"
#include "tests/unit/race.h"

#define ROUNDS 100000

/* Memcheck runs one thread at a time, and this one for as long as it likes. */
#define ROUNDS_OF_MEMCHECK 2000
#define PAUSE_OF_MEMCHECK_US 100

struct swapper {
	char inside[512], outside[512];
	atomic_bool over;
};

static void *swap(void *arg)
{
	struct swapper *s = arg;

	while (!atomic_load(&s->over)) {
		renameat2(AT_FDCWD, s->inside, AT_FDCWD, s->outside, RENAME_EXCHANGE);
		if (unit_is_under_valgrind())
			usleep(PAUSE_OF_MEMCHECK_US);
	}
	return NULL;
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* allowed/way is a directory, and in turns a link to a directory that no rule allows. */
static void make_ways(const char *dir)
{
	static const char *const dirs[] = { "allowed", "allowed/way", "secret", "elsewhere" };
	char path[512];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, dirs[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	write_file(dir, "allowed/way/f", "good");
	write_file(dir, "secret/f", "evil");
	snprintf(path, sizeof(path), "%s/elsewhere/way", dir);
	assert_int_equal(symlink("../secret", path), 0);
}

static void test_a_swapped_component_gains_nothing(void **state)
{
	const unsigned long n_rounds = unit_is_under_valgrind() ? ROUNDS_OF_MEMCHECK : ROUNDS;
	char dir[256], path[PATH_MAX], match[512], text[8];
	unsigned long n_opened = 0, n_refused = 0;
	struct source src = { .fd = -1 };
	struct swapper s = { .over = false };
	pthread_t thread;
	struct stat st;
	int fd, r;

	assert_non_null(realpath(*state, path));
	snprintf(dir, sizeof(dir), "%.200s", path);
	make_ways(dir);
	snprintf(match, sizeof(match), "%s/allowed/**", dir);
	snprintf(path, sizeof(path), "%s/allowed/way/f", dir);
	snprintf(s.inside, sizeof(s.inside), "%s/allowed/way", dir);
	snprintf(s.outside, sizeof(s.outside), "%s/elsewhere/way", dir);
	assert_int_equal(rule_patterns_new(&src.rules, match, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, swap, &s), 0);
	for (unsigned long i = 0; i < n_rounds; i++) {
		r = allowed_open_path(src.rules, path, &fd, &st, NULL, NULL);
		n_refused += r < 0;
		if (r < 0)
			continue;
		n_opened++;
		assert_int_equal(read(fd, text, sizeof(text)), 4);
		close(fd);
		if (memcmp(text, "good", 4) != 0) {
			atomic_store(&s.over, true);
			fail_msg("round %lu: what no rule allows was opened", i);
		}
	}
	atomic_store(&s.over, true);
	pthread_join(thread, NULL);
	rule_patterns_free(src.rules);
	print_message("%lu opened, %lu refused\n", n_opened, n_refused);
	assert_true(n_opened > 0 && n_refused > 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_swapped_component_gains_nothing,
						unit_scratch_setup, unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, race_without_link_protection, NULL);
}
