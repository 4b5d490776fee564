#include "client/tar-writer.h"

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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fd;
static struct tar_writer *w;

static int setup(void **state)
{
	fd = memfd_create("tar", 0);
	return fd < 0 ? -1 : tar_writer_new(&w, fd);
}

static int teardown(void **state)
{
	tar_writer_free(w);
	close(fd);
	return 0;
}

/* The archive as written, mapped; ends with the two zero blocks. */
static const char *finish(size_t *sizep)
{
	struct stat st;
	const char *p;

	assert_int_equal(tar_writer_end(w), 0);
	assert_int_equal(fstat(fd, &st), 0);
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	*sizep = (size_t)st.st_size;
	return p;
}

static unsigned sum_of(const char *header)
{
	unsigned sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : (unsigned char)header[i];
	return sum;
}

static void test_a_file_is_a_header_and_whole_blocks(void **state)
{
	const char *p;
	size_t size;

	assert_int_equal(tar_writer_begin(w, "a/b.txt", 0100644, 5, 1000), 0);
	assert_int_equal(tar_writer_put(w, "he", 2), 0);
	assert_int_equal(tar_writer_put(w, "llo", 3), 0);
	p = finish(&size);
	assert_int_equal(size, 4 * TAR_BLOCK);
	assert_string_equal(p, "a/b.txt");
	assert_string_equal(p + 100, "0000644");
	assert_string_equal(p + 124, "00000000005");
	assert_string_equal(p + 136, "00000001750");
	assert_memory_equal(p + 257,
			    "ustar\0"
			    "00",
			    8);
	assert_int_equal(strtoul(p + 148, NULL, 8), sum_of(p));
	assert_memory_equal(p + TAR_BLOCK, "hello\0", 6);
	assert_int_equal(tar_writer_get_cost("a/b.txt", 5, 0), 2 * TAR_BLOCK);
}

static void test_long_names_are_cut_or_become_records(void **state)
{
	char path[400], part[200];
	const char *p;
	size_t size;

	memset(part, 'x', sizeof(part));
	snprintf(path, sizeof(path), "%.90s/%.90s", part, part);
	assert_int_equal(tar_writer_begin(w, path, 0600, 0, 0), 0);
	assert_int_equal(tar_writer_get_cost(path, 0, 0), TAR_BLOCK);
	snprintf(path, sizeof(path), "%.120s/%.120s", part, part);
	assert_int_equal(tar_writer_begin(w, path, 0600, 0, 0), 0);
	assert_int_equal(tar_writer_get_cost(path, 0, 0), 3 * TAR_BLOCK);
	p = finish(&size);
	assert_int_equal(strlen(p), 90);
	assert_memory_equal(p + 345, part, 90);
	assert_int_equal(p[TAR_BLOCK + 156], 'x');
	assert_memory_equal(p + 2 * TAR_BLOCK, "251 path=", 9);
	assert_int_equal(p[2 * TAR_BLOCK + 250], '\n');
	assert_int_equal(p[3 * TAR_BLOCK + 156], '0');
}

static void test_sizes_beyond_octal_become_records(void **state)
{
	assert_int_equal(tar_writer_get_cost("f", 077777777777ULL, 0),
			 TAR_BLOCK + ((077777777777ULL + 511) & ~511ULL));
	assert_int_equal(tar_writer_get_cost("f", 0100000000000ULL, 0),
			 3 * TAR_BLOCK + 0100000000000ULL);
}

/* Seen failing when such a time was written as 0. */
static void test_times_before_1970_become_records(void **state)
{
	const char *p;
	size_t size;

	assert_int_equal(tar_writer_begin(w, "f", 0600, 0, -86400), 0);
	assert_int_equal(tar_writer_get_cost("f", 0, -86400), 3 * TAR_BLOCK);
	assert_int_equal(tar_writer_add_dir(w, "d", 0700, -1), 0);
	p = finish(&size);
	assert_int_equal(size, 8 * TAR_BLOCK);
	assert_int_equal(p[156], 'x');
	assert_string_equal(p + TAR_BLOCK, "16 mtime=-86400\n");
	assert_string_equal(p + 2 * TAR_BLOCK, "f");
	assert_string_equal(p + 2 * TAR_BLOCK + 136, "00000000000");
	assert_string_equal(p + 4 * TAR_BLOCK, "12 mtime=-1\n");
}

static void test_a_file_has_exactly_its_size(void **state)
{
	size_t size;

	assert_int_equal(tar_writer_begin(w, "f", 0600, 3, 0), 0);
	assert_int_equal(tar_writer_put(w, "1234", 4), -EFBIG);
	assert_int_equal(tar_writer_put(w, "12", 2), 0);
	assert_int_equal(tar_writer_begin(w, "g", 0600, 0, 0), -EINVAL);
	assert_int_equal(tar_writer_end(w), -EINVAL);
	assert_int_equal(tar_writer_put(w, "3", 1), 0);
	finish(&size);
	assert_int_equal(size, 4 * TAR_BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_file_is_a_header_and_whole_blocks, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_long_names_are_cut_or_become_records, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_sizes_beyond_octal_become_records, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_times_before_1970_become_records, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_file_has_exactly_its_size, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
