/* Headers that a thread reads in front of the walk: bytes of the file, from member to member. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "daemon/engines/archive/tar-chain.h"
#include "daemon/engines/archive/tar-sample.h"

static unsigned char *bytes;
static uint64_t size;
static int archive;

/* Reads take so long. */
static _Atomic unsigned read_us;
static _Atomic unsigned n_reads;

ssize_t __real_pread64(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *buf, size_t n, off_t at);

ssize_t __wrap_pread64(int fd, void *buf, size_t n, off_t at)
{
	atomic_fetch_add(&n_reads, 1);
	if (atomic_load(&read_us) > 0)
		usleep(atomic_load(&read_us));
	return __real_pread64(fd, buf, n, at);
}

static void load(const char *dir, const char *command)
{
	unit_run_in(dir, command);
	free(bytes);
	bytes = unit_load(dir, "t.tar", &archive, &size);
}

/* Makes an archive of n members. */
static void load_many(const char *dir, const char *format, unsigned n)
{
	_cleanup_(freep) char *command = NULL;

	assert_true(asprintf(&command,
			     "mkdir src && for i in $(seq %u); do head -c $((i * 13)) /dev/urandom "
			     ">src/$(printf %%0$((i / 2 + 1))d $i); done && tar --format=%s -C src "
			     "-cf t.tar .",
			     n, format) > 0);
	load(dir, command);
}

static int get(struct tar_chain *c, uint64_t at, const unsigned char **datap)
{
	int r;

	while ((r = tar_chain_get(c, at, datap)) == -EAGAIN)
		;
	return r;
}

/* As the walk does. Returns how many headers were known. */
static unsigned walk(struct tar_chain *c, uint64_t at)
{
	const unsigned char *data;
	struct tar_sample s = { .next = at };
	unsigned n = 0;

	while (!s.ended && !s.broken) {
		if (get(c, at, &data) == 0)
			break;
		assert_memory_equal(data, bytes + at, 512);
		tar_sample_add(&s, bytes + at, 512, at);
		at = s.next;
		n++;
	}
	return n;
}

/* The end is known, too: its first block. */
static void check_walk(const char *dir, const char *format, unsigned n_headers)
{
	_cleanup_(tar_chain_freep) struct tar_chain *c = NULL;

	load_many(dir, format, 400);
	c = tar_chain_new(archive, size, 0);
	assert_non_null(c);
	assert_int_equal(walk(c, 0), n_headers + 1);
	close(archive);
}

static void test_all_headers_of_gnu_are_known(void **state)
{
	check_walk(*state, "gnu", 401 + 205); /* names of more than 100 bytes have one more */
}

static void test_all_headers_of_pax_are_known(void **state)
{
	check_walk(*state, "pax", 2 * 401);
}

/* The blocks of one member come by one read. */
static void test_a_member_takes_one_read(void **state)
{
	struct tar_chain *c;

	load_many(*state, "pax", 100);
	atomic_store(&n_reads, 0);
	c = tar_chain_new(archive, size, 0);
	assert_non_null(c);
	assert_in_range(walk(c, 0), 200, 210);
	tar_chain_free(c);
	assert_in_range(atomic_load(&n_reads), 100, 130);
	close(archive);
}

static void test_where_no_header_is_nothing_is_known_until_it_is_told(void **state)
{
	_cleanup_(tar_chain_freep) struct tar_chain *c = NULL;
	const unsigned char *data;

	load_many(*state, "ustar", 90);
	c = tar_chain_new(archive, size, 0);
	assert_non_null(c);
	assert_int_equal(get(c, 0, &data), 1);
	assert_int_equal(get(c, 512, &data), 1);
	assert_int_equal(get(c, 513, &data), 0);
	assert_int_equal(get(c, size, &data), 0);
	tar_chain_go_to(c, 512);
	assert_int_equal(get(c, 512, &data), 1);
	assert_memory_equal(data, bytes + 512, 512);
	assert_int_equal(walk(c, 512), 91);
	assert_false(tar_chain_is_useless(c));
	for (unsigned i = 0; i < 100; i++)
		tar_chain_go_to(c, 512);
	assert_true(tar_chain_is_useless(c));
	close(archive);
}

/* It became shorter, or the caller knew a larger one; and a size that goes beyond the end. */
static void test_a_file_that_ends_early_has_no_more(void **state)
{
	_cleanup_(tar_chain_freep) struct tar_chain *c = NULL;
	const unsigned char *data;

	load(*state, "mkdir src && echo >src/f && tar -C src -cf - . | head -c 1024 >t.tar");
	c = tar_chain_new(archive, size * 100, 0);
	assert_non_null(c);
	assert_int_equal(get(c, 0, &data), 1);
	assert_int_equal(get(c, 512, &data), 1);
	assert_int_equal(get(c, 2048, &data), 0);
	tar_chain_free(c);
	c = tar_chain_new(archive, 1024, 0);
	assert_non_null(c);
	assert_int_equal(get(c, 512, &data), 1);
	assert_int_equal(get(c, 2048, &data), 0);
	close(archive);
}

/* Then many threads read. */
static void test_a_slow_source_ends_it(void **state)
{
	_cleanup_(tar_chain_freep) struct tar_chain *c = NULL;

	load_many(*state, "gnu", 400);
	atomic_store(&read_us, 200);
	c = tar_chain_new(archive, size, 0);
	assert_non_null(c);
	assert_in_range(walk(c, 0), 8, 60);
	atomic_store(&read_us, 0);
	close(archive);
}

#define SCRATCH(test)                                                                              \
	cmocka_unit_test_setup_teardown(test, unit_scratch_setup, unit_scratch_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SCRATCH(test_all_headers_of_gnu_are_known),
		SCRATCH(test_all_headers_of_pax_are_known),
		SCRATCH(test_a_member_takes_one_read),
		SCRATCH(test_where_no_header_is_nothing_is_known_until_it_is_told),
		SCRATCH(test_a_file_that_ends_early_has_no_more),
		SCRATCH(test_a_slow_source_ends_it),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	free(bytes);
	return r;
}
