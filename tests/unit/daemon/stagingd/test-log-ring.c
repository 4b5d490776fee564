#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>

#include "daemon/stagingd/log-ring.h"

static void test_lines_come_back_in_order(void **state)
{
	_cleanup_(log_ring_freep) struct log_ring *ring = NULL;
	uint64_t offset = 0;
	char line[64];

	assert_int_equal(log_ring_new(&ring), 0);
	assert_int_equal(log_ring_read(ring, &offset, line, sizeof(line)), -ENODATA);
	log_ring_add(ring, "one");
	log_ring_add(ring, "two\nlines");
	assert_int_equal(log_ring_read(ring, &offset, line, sizeof(line)), 3);
	assert_string_equal(line, "one");
	assert_int_equal(log_ring_read(ring, &offset, line, sizeof(line)), 9);
	assert_string_equal(line, "two lines");
	assert_int_equal(log_ring_read(ring, &offset, line, sizeof(line)), -ENODATA);
	log_ring_add(ring, "three");
	assert_int_equal(log_ring_read(ring, &offset, line, 4), 3); /* cut */
	assert_string_equal(line, "thr");
}

static void test_the_last_lines_are_whole(void **state)
{
	_cleanup_(log_ring_freep) struct log_ring *ring = NULL;
	char line[512], want[512];
	uint64_t offset = 0;
	unsigned first, n = 0;

	assert_int_equal(log_ring_new(&ring), 0);
	for (unsigned i = 0; i < 5000; i++) {
		snprintf(line, sizeof(line), "%u %.*s", i, (int)(i % 300),
			 "........................................................................"
			 "........................................................................"
			 "........................................................................"
			 "........................................................................"
			 "............");
		log_ring_add(ring, line);
	}
	assert_true(log_ring_read(ring, &offset, line, sizeof(line)) > 0);
	assert_int_equal(sscanf(line, "%u", &first), 1);
	while (log_ring_read(ring, &offset, line, sizeof(line)) >= 0) {
		snprintf(want, sizeof(want), "%u ", first + ++n);
		assert_memory_equal(line, want, strlen(want));
	}
	assert_int_equal(first + n, 4999);
	assert_in_range(n, 200, 2000);
}

static void test_a_reader_that_was_overtaken_goes_on_with_the_oldest(void **state)
{
	_cleanup_(log_ring_freep) struct log_ring *ring = NULL;
	uint64_t offset = 0;
	char line[128];

	assert_int_equal(log_ring_new(&ring), 0);
	log_ring_add(ring, "first");
	log_ring_add(ring, "second");
	assert_true(log_ring_read(ring, &offset, line, sizeof(line)) > 0);
	for (int i = 0; i < 10000; i++) {
		snprintf(line, sizeof(line), "line %05d of many", i);
		log_ring_add(ring, line);
	}
	assert_true(log_ring_read(ring, &offset, line, sizeof(line)) > 0);
	assert_memory_equal(line, "line 0", 6);
}

static void test_a_line_as_long_as_the_ring(void **state)
{
	_cleanup_(log_ring_freep) struct log_ring *ring = NULL;
	static char big[2 * LOG_RING_SIZE], out[2 * LOG_RING_SIZE];
	uint64_t offset = 0;

	memset(big, 'x', sizeof(big) - 1);
	assert_int_equal(log_ring_new(&ring), 0);
	for (int i = 0; i < 10; i++)
		log_ring_add(ring, big);
	assert_int_equal(log_ring_read(ring, &offset, out, sizeof(out)), LOG_RING_SIZE / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines_come_back_in_order),
		cmocka_unit_test(test_the_last_lines_are_whole),
		cmocka_unit_test(test_a_reader_that_was_overtaken_goes_on_with_the_oldest),
		cmocka_unit_test(test_a_line_as_long_as_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
