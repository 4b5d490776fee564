#include "tests/unit/unit.h"

#include <fcntl.h>

#include "daemon/engines/archive/estimate.h"

/* The tool makes of 5,000,000 bytes a file; what does it say of itself? tool NULL-ends the options.
 */
static bool estimate(const char *dir, const char *tool, const char *command, struct estimate *e,
		     uint64_t *sizep, enum facts_filter filter)
{
	char cmd[1024], path[512];
	int fd;

	snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null 2>&1", tool);
	if (system(cmd) != 0)
		return false;
	snprintf(path, sizeof(path), "%s/f", dir);
	snprintf(cmd, sizeof(cmd), "cd %s && seq 1000000 | head -c 5000000 >in && (%s) >f", dir,
		 command);
	assert_int_equal(system(cmd), 0);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	*sizep = (uint64_t)lseek(fd, 0, SEEK_END);
	*e = estimate_unpacked(fd, *sizep, filter);
	close(fd);
	return true;
}

#define NEARLY 1 /* less than ten times the file's size */

static void test_what_formats_say(void **state)
{
	static const struct {
		const char *tool, *command;
		enum facts_filter filter;
		bool exact;
		uint64_t bytes; /* 0: a ratio */
	} cases[] = {
		{ "gzip", "gzip -c in", FILTER_GZIP, true, 5000000 },
		/* cut off before its end: the last bytes are no length */
		{ "gzip", "gzip -c in | head -c 300000; printf '\\377\\377\\377\\377'", FILTER_GZIP,
		  false, NEARLY },
		{ "xz", "xz -0c in", FILTER_XZ, true, 5000000 },
		{ "xz", "xz -0c in; xz -0c in", FILTER_XZ, true, 10000000 },
		{ "xz", "xz -0c --block-size=500000 in; head -c 8 /dev/zero", FILTER_XZ, true,
		  5000000 },
		{ "xz", "xz -0c in | head -c 100000", FILTER_XZ, false, 0 },
		{ "zstd", "zstd -qc in", FILTER_ZSTD, true, 5000000 },
		{ "zstd", "zstd -qc <in", FILTER_ZSTD, false, 0 },
		{ "bzip2", "bzip2 -c in", FILTER_BZIP2, false, 0 },
		{ "cat", "cat in", FILTER_NONE, true, 5000000 },
		{ "head", "head -c 5 in", FILTER_XZ, false, 0 },
		{ "head", "head -c 5 in", FILTER_GZIP, false, 0 },
		{ "head", "head -c 5 in", FILTER_ZSTD, false, 0 },
	};
	struct estimate e;
	uint64_t size;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (!estimate(*state, cases[i].tool, cases[i].command, &e, &size, cases[i].filter))
			continue;
		if (cases[i].bytes == NEARLY ? !e.exact && e.bytes < 10 * size : false)
			continue;
		if (e.exact != cases[i].exact ||
		    e.bytes != (cases[i].bytes ? cases[i].bytes : 3 * size))
			fail_msg("%s: %llu %d", cases[i].command, (unsigned long long)e.bytes,
				 e.exact);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_what_formats_say, unit_scratch_setup,
						unit_scratch_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
