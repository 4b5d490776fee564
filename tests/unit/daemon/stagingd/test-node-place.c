/* This program is the stage-slurm of these tests as well: what it does stands as the list's last
 * name. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "daemon/stagingd/node-place.h"

/* clang-format off */
static const struct { const char *list; int r; uint32_t index, n; } cases[] = {
	{ "n[1-2],says", 0, 40, 50 },
	{ "n[1-2],first", 0, 0, 1 },
	{ "n[1-2],fails", -EIO, 0, 0 },         /* whatever it has printed before */
	{ "n[1-2],dies", -EIO, 0, 0 },
	{ "n[1-2],silent", -EPROTO, 0, 0 },
	{ "n[1-2],cut", -EPROTO, 0, 0 },
	{ "n[1-2],more", -EPROTO, 0, 0 },
	{ "n[1-2],behind", -EPROTO, 0, 0 },     /* a place behind the last */
	{ "n[1-2],large", -EPROTO, 0, 0 },
	{ "n[1-2],long", -EIO, 0, 0 },
};

static const struct { const char *end, *text; } texts[] = {
	{ "says", "40 50\n" }, { "first", "0 1\n" }, { "fails", "40 50\n" }, { "dies", "40 50\n" },
	{ "long", "40 50\n                                                                      " },
	{ "cut", "40" }, { "more", "40 50\nx" }, { "behind", "3 3\n" },
	{ "large", "4294967297 4294967298\n" }, { "silent", "" },
};
/* clang-format on */

static void pretend(const char *list)
{
	const char *end = strrchr(list, ',') + 1;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (!strcmp(end, texts[i].end))
			printf("%s", texts[i].text);
	fflush(stdout);
	if (!strcmp(end, "dies"))
		raise(SIGKILL);
	while (!strcmp(end, "hangs"))
		pause();
	exit(strcmp(end, "fails") == 0);
}

/* Seen failing where any output was taken, and where what a program that failed had said was. */
static void test_what_stage_slurm_says(void **state)
{
	if (unit_is_under_valgrind()) /* which /proc/self/exe names in a child */
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint32_t index = 0, n = 0;
		int r = node_place_ask("/proc/self/exe", 60000, cases[i].list, "n2", &index, &n);

		if (r != cases[i].r || index != cases[i].index || n != cases[i].n)
			fail_msg("%s: %d, %u of %u", cases[i].list, r, index, n);
	}
}

/* Without its time this never ends. */
static void test_a_stage_slurm_that_hangs_is_given_up(void **state)
{
	uint32_t index, n;

	assert_int_equal(node_place_ask("/proc/self/exe", 100, "n1,hangs", "n1", &index, &n), -EIO);
}

static void test_without_stage_slurm(void **state)
{
	static const char *const programs[] = { "/nonexistent/stage-slurm", "/etc/passwd", "/" };
	uint32_t index = 0, n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		assert_in_range(-node_place_ask(programs[i], 60000, "n1,says", "n1", &index, &n), 1,
				4095);
}

/* Whether it is installed here or not */
static void test_a_place_is_found(void **state)
{
	uint32_t index = 0, n = 0;

	assert_int_equal(node_place_find("n[1-2],m", "n2", &index, &n), 0);
	assert_int_equal(index, 1);
	assert_int_equal(n, 3);
	assert_int_equal(node_place_find("n7", "n7", &index, &n), 0);
	assert_int_equal(index, 0);
	assert_int_equal(n, 1);
	assert_int_equal(node_place_find("n[1-2],m", "n3", &index, &n), -ENOENT);
	assert_int_equal(node_place_find("n[1-", "n1", &index, &n), -EINVAL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_stage_slurm_says),
		cmocka_unit_test(test_a_stage_slurm_that_hangs_is_given_up),
		cmocka_unit_test(test_without_stage_slurm),
		cmocka_unit_test(test_a_place_is_found),
	};

	if (argc == 4 && !strcmp(argv[1], "place"))
		pretend(argv[3]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
