#include "tests/unit/unit.h"

#include "daemon/engines/archive/tar-sample.h"

#define BLOCK 512

/* Appends a member; returns the archive's new size. */
static size_t add(unsigned char *tar, size_t at, char type, uint64_t size)
{
	unsigned char *h = tar + at;
	unsigned sum = 0;

	memset(h, 0, BLOCK);
	strcpy((char *)h, "name");
	sprintf((char *)h + 100, "%07o", 0644u);
	sprintf((char *)h + 124, "%011llo", (unsigned long long)size);
	sprintf((char *)h + 136, "%011o", 0u);
	h[156] = (unsigned char)type;
	memcpy(h + 257,
	       "ustar\0"
	       "00",
	       8);
	memset(h + 148, ' ', 8);
	for (int i = 0; i < BLOCK; i++)
		sum += h[i];
	sprintf((char *)h + 148, "%06o", sum);
	return at + BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
}

static unsigned char tar[1 << 20];

static void test_pages_are_counted(void **state)
{
	struct tar_sample s = { 0 };
	size_t n = 0;

	memset(tar, 0, sizeof(tar));
	n = add(tar, n, '5', 0);
	for (int i = 0; i < 100; i++) {
		n = add(tar, n, 'L', 300);
		n = add(tar, n, '0', 10);
	}
	n = add(tar, n, '0', 5000);
	n = add(tar, n, '2', 0);
	n = add(tar, n, '1', 77); /* what its header says of content is not there */
	n -= BLOCK;
	n = add(tar, n, '0', 0);
	tar_sample_add(&s, tar, n + 2 * BLOCK, 0);
	assert_true(s.ended);
	assert_int_equal(s.n_files, 105);
	assert_int_equal(tar_sample_estimate(&s, n), 4096 * (1 + 100 + 2 + 1));
}

static void test_tiny_files_grow_in_memory(void **state)
{
	struct tar_sample s = { 0 };
	size_t n = 0;

	memset(tar, 0, sizeof(tar));
	while (n + 2048 < sizeof(tar))
		n = add(tar, n, '0', 1000);
	tar_sample_add(&s, tar, 300000, 0);
	assert_false(s.ended || s.broken);
	/* 1536 bytes in the archive are a page */
	assert_in_range(tar_sample_estimate(&s, 100ULL << 20), 260ULL << 20, 270ULL << 20);
	/* in pieces it is the same */
	for (size_t at = 0; at < 300000; at += 4096)
		tar_sample_add(&s, tar + at, 4096, at);
	assert_in_range(tar_sample_estimate(&s, 100ULL << 20), 260ULL << 20, 270ULL << 20);
}

static void test_large_and_broken_ones_end_it(void **state)
{
	struct tar_sample s = { 0 };
	size_t n;

	memset(tar, 0, sizeof(tar));
	n = add(tar, 0, '0', 7ULL << 30);
	tar_sample_add(&s, tar, sizeof(tar), 0);
	assert_int_equal(s.next, n);
	assert_in_range(tar_sample_estimate(&s, n + 1024), 7ULL << 30, (7ULL << 30) + 4096);
	assert_int_equal(tar_sample_estimate(&s, 5000), 5000); /* cut off */
	s = (struct tar_sample){ 0 };
	tar_sample_add(&s, tar, add(tar, 0, '0', 1), 0);
	assert_int_equal(tar_sample_estimate(&s, INT64_MAX),
			 INT64_MAX); /* was beyond all numbers */
	s = (struct tar_sample){ 0 };
	memset(tar + add(tar, 0, '0', 10), 'x', BLOCK);
	tar_sample_add(&s, tar, sizeof(tar), 0);
	assert_true(s.broken);
	assert_int_equal(s.charge, 4096);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_are_counted),
		cmocka_unit_test(test_tiny_files_grow_in_memory),
		cmocka_unit_test(test_large_and_broken_ones_end_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
