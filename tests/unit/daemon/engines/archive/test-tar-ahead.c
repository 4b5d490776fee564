/* Headers that are read before the walk comes to them: bytes of the file, where members begin. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/engines/archive/tar-ahead.h"
#include "daemon/engines/archive/tar-sample.h"

#define MEAN 2048

static unsigned char *bytes;
static uint64_t size;
static int archive;

/* The first read of this place hangs until there is none. */
static _Atomic uint64_t hang_at = UINT64_MAX;
static _Atomic unsigned n_hung, n_over;

/* Reads take so long. */
static _Atomic unsigned read_us, n_reads;

/* Content is not in memory. */
static _Atomic bool is_cold;

ssize_t __real_preadv64v2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t __wrap_preadv64v2(int fd, const struct iovec *v, int n, off_t at, int flags);

ssize_t __wrap_preadv64v2(int fd, const struct iovec *v, int n, off_t at, int flags)
{
	if (!atomic_load(&is_cold))
		return preadv(fd, v, n, at);
	errno = EAGAIN;
	return -1;
}

ssize_t __real_pread64(int fd, void *buf, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *buf, size_t n, off_t at);

ssize_t __wrap_pread64(int fd, void *buf, size_t n, off_t at)
{
	uint64_t place = atomic_load(&hang_at);

	atomic_fetch_add(&n_reads, 1);
	if (atomic_load(&read_us) > 0)
		usleep(atomic_load(&read_us));

	if (place >= (uint64_t)at && place < (uint64_t)at + n &&
	    atomic_fetch_add(&n_hung, 1) == 0) {
		while (atomic_load(&hang_at) == place)
			usleep(1000);
		atomic_fetch_add(&n_over, 1);
	}
	return __real_pread64(fd, buf, n, at);
}

static void load(const char *dir, const char *command)
{
	unit_run_in(dir, command);
	free(bytes);
	bytes = unit_load(dir, "t.tar", &archive, &size);
}

static ssize_t get(struct tar_ahead *a, uint64_t at, const unsigned char **datap)
{
	ssize_t n;

	while ((n = tar_ahead_get(a, at, MEAN, datap)) == -EAGAIN)
		;
	return n;
}

static bool is_fast;
static unsigned n_threads = 4;

/* As the walk does. Returns how many headers there are. */
static unsigned walk(uint64_t segment_size, unsigned *n_knownp)
{
	const struct tar_ahead_options options = {
		.fd = archive,
		.size = size,
		.segment_size = segment_size,
		.n_threads = n_threads,
		.is_fast = is_fast,
	};
	_cleanup_(tar_ahead_freep) struct tar_ahead *a = tar_ahead_new(&options, 0, MEAN);
	struct tar_sample s = { 0 };
	const unsigned char *data;
	uint64_t at = 0;
	unsigned n_asked = 0;
	ssize_t n;

	assert_non_null(a);
	*n_knownp = 0;
	while (!s.ended && !s.broken) {
		n = get(a, at, &data);
		assert_in_range(n, 0, size - at);
		if (n > 0)
			assert_memory_equal(data, bytes + at, (size_t)n);
		n_asked++;
		*n_knownp += n > 0;
		tar_sample_add(&s, bytes + at, 512, at); /* one header */
		at = s.next;
	}
	assert_true(s.ended);
	return n_asked - 1; /* but the end */
}

static const uint64_t segment_sizes[] = { 4096, 20480, 100000 / 512 * 512, 1 << 20 };

/* Names of more than 100 bytes have more headers. */
static void load_many(const char *dir, const char *format)
{
	_cleanup_(freep) char *command = NULL;

	assert_true(asprintf(&command,
			     "rm -rf src && mkdir src && for i in $(seq 400); do "
			     "head -c $((i * 13)) /dev/urandom >src/$(printf %%0$((i / 2 + 1))d $i)"
			     "; done && tar --format=%s -C src -cf t.tar .",
			     format) > 0);
	load(dir, command);
}

static void check_walks(void)
{
	unsigned n_known, n;

	for (size_t i = 0; i < ARRAY_SIZE(segment_sizes); i++) {
		n = walk(segment_sizes[i], &n_known);
		assert_in_range(n, 400, 1000);
		assert_int_equal(n_known, n);
	}
}

static void test_headers_are_known_where_the_walk_comes(void **state)
{
	load_many(*state, "gnu");
	check_walks();
	close(archive);
}

/* Also where no header can be searched, because content is not in memory. The walk reads a part of
 * the segments, with one thread about half of them. */
static void test_headers_are_known_where_reads_take_no_time(void **state)
{
	static const char *const formats[] = { "gnu", "pax" };

	is_fast = true;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(formats); i++) {
		load_many(*state, formats[i / 2]);
		atomic_store(&is_cold, i % 2 == 1);
		for (n_threads = 1; n_threads <= 4; n_threads += 3)
			check_walks();
		close(archive);
	}
	n_threads = 4;
	atomic_store(&is_cold, false);
	is_fast = false;
}

/* The blocks of one member come by one read. */
static void test_a_member_takes_one_read_that_takes_no_time(void **state)
{
	unsigned n_known, n;

	load_many(*state, "pax");
	is_fast = true;
	atomic_store(&n_reads, 0);
	n = walk(1 << 20, &n_known);
	assert_int_equal(n_known, n);
	assert_in_range(atomic_load(&n_reads), 400, 450);
	is_fast = false;
	close(archive);
}

/* Then more threads are better. */
static void test_reads_that_become_slow_are_noticed(void **state)
{
	struct tar_ahead_options o = { .n_threads = 2, .segment_size = 1 << 20, .is_fast = true };
	_cleanup_(tar_ahead_freep) struct tar_ahead *a = NULL;
	const unsigned char *data;

	load_many(*state, "gnu");
	o.fd = archive;
	o.size = size;
	atomic_store(&read_us, 200);
	a = tar_ahead_new(&o, 0, MEAN);
	assert_non_null(a);
	assert_false(tar_ahead_is_slow(a));
	assert_true(get(a, 0, &data) > 0);
	assert_true(tar_ahead_is_slow(a));
	atomic_store(&read_us, 0);
	tar_ahead_free(steal_ptr(a)); /* its threads read the archive */
	close(archive);
}

/* Segments begin in archives that are members, and go on behind them. */
static void test_an_archive_in_an_archive_leads_out_of_it_again(void **state)
{
	unsigned n_known, n;

	load(*state, "mkdir in src && for i in $(seq 40); do head -c 1500 /dev/urandom >in/$i; done"
		     " && tar -C in -cf inner.tar . && tar -C in -cf - . | head -c 49664 >cut.tar"
		     " && for i in $(seq 30); do cp inner.tar src/$i.tar; cp cut.tar src/$i.cut;"
		     " echo $i >src/$i; done && tar -C src -cf t.tar .");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(segment_sizes); i++) {
		is_fast = i % 2 == 1;
		n = walk(segment_sizes[i / 2], &n_known);
		assert_int_equal(n, 91);
		assert_int_equal(n_known, n);
	}
	is_fast = false;
	close(archive);
}

/* Asks for the headers from at on, also for those of a member that is a tar. Returns how many are
 * not known. */
static unsigned walk_nested(struct tar_ahead *a, uint64_t at, unsigned *np)
{
	struct tar_sample s = { .next = at };
	const unsigned char *data;
	unsigned n_not = 0;

	while (!s.ended && !s.broken) {
		n_not += get(a, at, &data) == 0;
		++*np;
		tar_sample_add(&s, bytes + at, 512, at);
		if (!s.ended && s.next > at + 512 && !memcmp(bytes + at + 512 + 257, "ustar", 5))
			n_not += walk_nested(a, at + 512, np) - 1; /* without its end */
		at = s.next;
	}
	assert_true(s.ended);
	return n_not;
}

/* Archives are smaller and larger than a segment. */
static void test_headers_of_archives_in_the_archive_are_known(void **state)
{
	struct tar_ahead_options o = { .n_threads = 4, .nested = true };
	const uint64_t sizes[] = { 40960, 1 << 20 };
	struct tar_ahead *a;
	unsigned n;

	load(*state, "mkdir in src && for i in $(seq 40); do head -c 1500 /dev/urandom >in/$i; done"
		     " && for i in $(seq 30); do tar -C in -cf src/$i.tar .; echo $i >src/$i; done"
		     " && tar -C src -cf t.tar .");
	o.fd = archive;
	o.size = size;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		o.segment_size = sizes[i];
		a = tar_ahead_new(&o, 0, MEAN);
		assert_non_null(a);
		n = 0;
		assert_int_equal(walk_nested(a, 0, &n), 1); /* the end */
		assert_int_equal(n, 61 + 30 * 42 + 1);
		tar_ahead_free(a);
	}
	close(archive);
}

static void test_places_that_are_no_headers_are_not_known_and_it_says_so(void **state)
{
	const struct tar_ahead_options options = { .n_threads = 2, .segment_size = 8192 };
	struct tar_ahead_options o = options;
	_cleanup_(tar_ahead_freep) struct tar_ahead *a = NULL;
	const unsigned char *data;

	load(*state, "mkdir src && for i in $(seq 200); do head -c 4000 /dev/urandom >src/$i; done"
		     " && tar -C src -cf t.tar .");
	o.fd = archive;
	o.size = size;
	a = tar_ahead_new(&o, 0, MEAN);
	assert_non_null(a);
	for (uint64_t at = 512 + 512 + 1024; at < size / 2; at += 512 + 4096) {
		assert_false(tar_ahead_is_useless(a));
		assert_int_equal(get(a, at, &data), 0);
	}
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(get(a, size / 4608 * 4608 + 1, &data), 0);
	assert_true(tar_ahead_is_useless(a));
	tar_ahead_free(steal_ptr(a)); /* its threads read the archive */
	close(archive);
}

/* Most members are no archives, so their content is not known. */
static void test_looks_at_content_do_not_make_it_useless(void **state)
{
	struct tar_ahead_options o = { .n_threads = 2, .segment_size = 65536, .nested = true };
	_cleanup_(tar_ahead_freep) struct tar_ahead *a = NULL;
	const unsigned char *data;
	const uint64_t member = 512 + 1024;
	uint64_t at = 512; /* after the directory */

	load(*state, "mkdir src && for i in $(seq 500); do head -c 1000 /dev/urandom >src/$i; done"
		     " && tar -C src -cf t.tar .");
	o.fd = archive;
	o.size = size;
	a = tar_ahead_new(&o, 0, MEAN);
	assert_non_null(a);
	for (unsigned i = 0; i < 400; i++, at += member) {
		assert_true(get(a, at, &data) > 0);
		assert_int_equal(tar_ahead_peek(a, at + 512, MEAN, &data), 0);
	}
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(get(a, at + 512, &data), 0);
	assert_false(tar_ahead_is_useless(a));
	tar_ahead_free(steal_ptr(a)); /* its threads read the archive */
	close(archive);
}

/* It became shorter, or the caller knew a larger one. */
static void test_a_file_that_ends_early_has_no_more(void **state)
{
	struct tar_ahead_options o = { .n_threads = 1, .segment_size = 4096 };
	_cleanup_(tar_ahead_freep) struct tar_ahead *a = NULL;
	const unsigned char *data;

	load(*state, "mkdir src && tar -C src -cf - . | head -c 512 >t.tar");
	o.fd = archive;
	o.size = size * 100;
	a = tar_ahead_new(&o, 0, MEAN);
	assert_non_null(a);
	assert_int_equal(get(a, 0, &data), 512);
	for (uint64_t at = 512; at < size * 100; at += 512)
		assert_int_equal(get(a, at, &data), 0);
	tar_ahead_free(steal_ptr(a)); /* its threads read the archive */
	close(archive);
}

/* All others are known, and nobody waits for that thread at the end. Never ends where the walk
 * waits for each segment. */
static void test_a_thread_that_hangs_is_left_behind(void **state)
{
	unsigned n_known, n;

	load(*state, "mkdir src && for i in $(seq 400); do head -c 3000 /dev/urandom >src/$i; done"
		     " && tar -C src -cf t.tar .");
	atomic_store(&hang_at, size / 2);
	n = walk(20480, &n_known);
	assert_true(atomic_load(&n_hung) > 0);
	assert_int_equal(atomic_load(&n_over), 0);
	assert_int_equal(n, 401);
	assert_in_range(n_known, n - 10, n - 1);
	atomic_store(&hang_at, UINT64_MAX);
	while (atomic_load(&n_over) == 0)
		usleep(1000); /* it reads the file still, which is not closed */
}

#define SCRATCH(test)                                                                              \
	cmocka_unit_test_setup_teardown(test, unit_scratch_setup, unit_scratch_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		SCRATCH(test_headers_are_known_where_the_walk_comes),
		SCRATCH(test_headers_are_known_where_reads_take_no_time),
		SCRATCH(test_a_member_takes_one_read_that_takes_no_time),
		SCRATCH(test_reads_that_become_slow_are_noticed),
		SCRATCH(test_an_archive_in_an_archive_leads_out_of_it_again),
		SCRATCH(test_headers_of_archives_in_the_archive_are_known),
		SCRATCH(test_places_that_are_no_headers_are_not_known_and_it_says_so),
		SCRATCH(test_looks_at_content_do_not_make_it_useless),
		SCRATCH(test_a_file_that_ends_early_has_no_more),
		SCRATCH(test_a_thread_that_hangs_is_left_behind),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	free(bytes);
	return r;
}
