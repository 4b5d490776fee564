/*
 * Streams of blocks: files read ahead, blocks that are shared and run out, and who is waked by
 * what.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

#include "common/util/error.h"
#include "daemon/engines/archive/cached.h"
#include "daemon/engines/archive/ordered.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/copy/hash.h"

#define FILE_SIZE (40 * BLOCK_SIZE + 12345)

static unsigned char content[FILE_SIZE];

static int open_content(const char *dir, size_t size)
{
	_cleanup_(freep) char *path = NULL;
	int fd;

	assert_true(asprintf(&path, "%s/content", dir) > 0);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, content, size, 0), size);
	return fd;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

/* Reads all, keeping the last few blocks; naps now and then. */
static void check_content(struct stream *s, size_t size, size_t nap_every)
{
	struct block *held[STREAM_MAY_HOLD] = { NULL }, *b;
	size_t at = 0, n = 0;
	int r;

	while ((r = stream_next_block(s, &b, NULL)) > 0) {
		assert_true(b->size > 0 && at + b->size <= size);
		assert_true(b->size % STREAM_ALIGN == 0 || at + b->size == size);
		assert_memory_equal(b->data, content + at, b->size);
		at += b->size;
		block_put(held[n % STREAM_MAY_HOLD]);
		held[n % STREAM_MAY_HOLD] = b;
		if (nap_every && n % nap_every == 0)
			nap();
		n++;
	}
	assert_int_equal(r, 0);
	assert_int_equal(at, size);
	assert_int_equal(stream_next_block(s, &b, NULL), 0); /* and stays at its end */
	for (size_t i = 0; i < STREAM_MAY_HOLD; i++)
		block_put(held[i]);
}

static void test_a_file_comes_in_order_and_whole(void **state)
{
	static const size_t sizes[] = {
		0, 1, 4096, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, FILE_SIZE
	};
	struct stream *s;
	int fd;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		fd = open_content(*state, sizes[i]);
		assert_int_equal(stream_new_file(&s, NULL, fd, NULL, NULL), 0);
		check_content(s, sizes[i], 0);
		stream_close(s);
		for (size_t nap_every = 0; nap_every < 8; nap_every += 7) {
			assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
			check_content(s, sizes[i], nap_every);
			stream_close(s);
		}
		close(fd);
	}
}

/* Reads all, and what is left itself; leaves what it may from `from` on. How much was left. */
static size_t check_left(struct stream *s, int fd, size_t size, size_t from, uint64_t n,
			 bool needed)
{
	unsigned char *buf = malloc(size + 1);
	size_t at = 0, left = 0;
	struct block *b;
	int r;

	for (;;) {
		if (at >= from && at - from < n)
			stream_leave(s, n - (at - from), needed);
		r = stream_next_block(s, &b, NULL);
		if (r <= 0)
			break;
		assert_true(at + b->size <= size);
		if (b->data) {
			memcpy(buf + at, b->data, b->size);
		} else {
			assert_true(at >= from && at + b->size <= from + n);
			assert_true(b->size >= STREAM_LEAVE_MIN);
			assert_int_equal(b->at, at);
			assert_int_equal(b->fd, fd);
			assert_int_equal(pread(b->fd, buf + at, b->size, (off_t)b->at), b->size);
			left += b->size;
		}
		at += b->size;
		block_put(b);
	}
	assert_int_equal(r, 0);
	assert_int_equal(at, size);
	assert_memory_equal(buf, content, size);
	free(buf);
	return left;
}

/* Fails when a block that is read already comes in place of one that is left, or the other way
 * round, and when something is left that is not in the file. */
static void test_what_others_read_is_left_to_them(void **state)
{
	static const struct {
		size_t from;
		uint64_t n;
	} cases[] = {
		{ 0, FILE_SIZE },
		{ BLOCK_SIZE, 30 * BLOCK_SIZE + 5 },
		{ 3 * BLOCK_SIZE, UINT64_MAX / 2 }, /* a member that is cut off */
		{ 35 * BLOCK_SIZE, 5 * BLOCK_SIZE },
		{ 8 * BLOCK_SIZE, STREAM_LEAVE_MIN - 1 }, /* too little */
		{ 0, 0 },
	};
	struct stream *s;
	struct hash *h;
	int fd = open_content(*state, FILE_SIZE);
	size_t left;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int needed = 0; needed < 2; needed++) {
			assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
			left = check_left(s, fd, FILE_SIZE, cases[i].from, cases[i].n, needed);
			if (cases[i].n >= 30 * BLOCK_SIZE && !needed)
				assert_true(left > 0); /* no more than 16 blocks are read ahead */
			if (cases[i].n < STREAM_LEAVE_MIN)
				assert_int_equal(left, 0);
			stream_close(s);
		}
		/* a sum is of everything */
		assert_int_equal(hash_new(&h), 0);
		assert_int_equal(stream_new_read_ahead(&s, NULL, fd, h, NULL), 0);
		assert_int_equal(check_left(s, fd, FILE_SIZE, cases[i].from, cases[i].n, true), 0);
		stream_close(s);
		hash_free(h);
	}
	close(fd);
}

/* Members of n bytes behind a header each, as a tar has them; what is taken back is read here. How
 * many were. */
static size_t check_taken_back(struct stream *s, int fd, size_t size, size_t header, size_t n)
{
	unsigned char *buf = malloc(size + 1);
	size_t at = 0, member = header, back, n_taken = 0;
	struct block *b;
	int r;

	while ((r = stream_next_block(s, &b, NULL)) > 0) {
		assert_true(b->data && b->size > 0 && at + b->size <= size);
		memcpy(buf + at, b->data, b->size);
		at += b->size;
		assert_true(at % 512 == 0 || at == size);
		block_put(b);
		while (member + n <= at)
			member += header + n;
		back = at - member;
		if (member >= at || !stream_take_back(s, back, n))
			continue;
		assert_true(member + n <= size);
		assert_int_equal(stream_next_block(s, &b, NULL), 1);
		assert_null(b->data);
		assert_int_equal(b->fd, fd);
		assert_int_equal(b->at, member);
		assert_int_equal(b->size, n);
		memset(buf + member, 0, n);
		assert_int_equal(pread(fd, buf + member, n, (off_t)b->at), n);
		at = member + n;
		block_put(b);
		n_taken++;
	}
	assert_int_equal(r, 0);
	assert_int_equal(at, size);
	assert_memory_equal(buf, content, size);
	free(buf);
	return n_taken;
}

/* Where the kernel can't tell (a tmpfs), every file is far away. */
static bool tells_what_is_cached(int fd)
{
	char buf[4096];

	return cached_read(fd, buf, sizeof(buf), 0) == sizeof(buf);
}

/*
 * Fails when what is taken back does not begin where it was asked for, when a member that is cut
 * off is, when the reader does not go on behind it, when a block ends within one of a tar, or when
 * nothing ever is taken back.
 */
static void test_what_was_begun_is_taken_back(void **state)
{
	static const struct {
		size_t header, n, at_least, at_most;
	} cases[] = {
		{ 512, 100000, 200, 420 },		 /* but for those that were read ahead */
		{ 1536, 5u << 20, 3, 8 },		 /* large ones */
		{ 512, 41u << 20, 0, 0 },		 /* cut off */
		{ 512, STREAM_TAKE_BACK_MIN - 1, 0, 0 }, /* too small */
		{ 1u << 20, 300000, 0, 20 },		 /* few: the thread reads what is between */
	};
	struct stream *s;
	struct hash *h;
	int fd = open_content(*state, FILE_SIZE);
	bool tells = tells_what_is_cached(fd);
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
		n = check_taken_back(s, fd, FILE_SIZE, cases[i].header, cases[i].n);
		assert_true(n >= (tells ? cases[i].at_least : 0) && n <= cases[i].at_most);
		stream_close(s);
		/* a sum is of everything */
		assert_int_equal(hash_new(&h), 0);
		assert_int_equal(stream_new_read_ahead(&s, NULL, fd, h, NULL), 0);
		n = check_taken_back(s, fd, FILE_SIZE, cases[i].header, cases[i].n);
		assert_int_equal(n, 0);
		stream_close(s);
		hash_free(h);
	}
	close(fd);
}

/* Fails when a thread that rests is not told. */
static void test_a_stream_that_walks_is_closed(void **state)
{
	struct stream *s;
	struct block *b;
	int fd = open_content(*state, FILE_SIZE), n = 0;

	assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
	do {
		assert_int_equal(stream_next_block(s, &b, NULL), 1);
		block_put(b);
	} while (!stream_take_back(s, 4096, 1u << 20) && n++ < 30);
	assert_true(n <= 30 || !tells_what_is_cached(fd));
	assert_true(n > 30 || stream_is_ready(s));
	stream_close(s);
	close(fd);
}

/* Fails when a thread that rests keeps a block: with all others held there is none for who walks,
 * who waits for ever. */
static void test_who_walks_has_all_blocks(void **state)
{
	struct block *held[STREAM_READ_BLOCKS], *b;
	int fd = open_content(*state, FILE_SIZE), n = 0, tries = 0;
	struct stream *s;

	assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
	while (n < STREAM_READ_BLOCKS - 7) /* 2 KiB to 128 KiB are seven steps */
		assert_int_equal(stream_next_block(s, &held[n++], NULL), 1);
	do {
		assert_int_equal(stream_next_block(s, &b, NULL), 1);
		block_put(b);
	} while (!stream_take_back(s, 4096, 1u << 20) && tries++ < 25);
	assert_true(tries < 25 || !tells_what_is_cached(fd));
	if (tries < 25) {
		assert_int_equal(stream_next_block(s, &b, NULL), 1);
		block_put(b);
		for (int i = 0; i < 20; i++) /* it would take one now */
			nap();
		alarm(20);
		while (n < STREAM_READ_BLOCKS)
			assert_int_equal(stream_next_block(s, &held[n++], NULL), 1);
		alarm(0);
	}
	while (n > 0)
		block_put(held[--n]);
	stream_close(s);
	close(fd);
}

/* One that was left and is not asked for goes with the stream. */
static void test_a_stream_is_closed_with_what_it_left(void **state)
{
	struct stream *s;
	int fd = open_content(*state, FILE_SIZE);

	assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
	stream_leave(s, FILE_SIZE, false);
	stream_close(s);
	close(fd);
}

static void test_a_file_that_cant_be_read_says_so(void **state)
{
	struct error err = ERROR_INIT;
	struct stream *s;
	struct block *b;
	int fd = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, &err), 0);
	assert_int_equal(stream_next_block(s, &b, &err), -EISDIR);
	assert_non_null(strstr(err.text, "read the source"));
	stream_close(s);
	close(fd);
}

static void test_the_hash_is_of_all_that_was_read(void **state)
{
	char want[HASH_TEXT_SIZE], got[HASH_TEXT_SIZE];
	struct stream *s;
	struct hash *h;
	int fd = open_content(*state, FILE_SIZE);

	assert_int_equal(hash_new(&h), 0);
	hash_add(h, content, FILE_SIZE);
	hash_get(h, want);
	for (int i = 0; i < 2; i++) { /* it is at its beginning again */
		assert_int_equal(stream_new_read_ahead(&s, NULL, fd, h, NULL), 0);
		assert_int_equal(stream_drain(s, NULL), 0);
		stream_close(s);
		hash_get(h, got);
		assert_string_equal(got, want);
	}
	/* given up in the middle */
	assert_int_equal(stream_new_read_ahead(&s, NULL, fd, h, NULL), 0);
	for (int i = 0; i < 3; i++) {
		struct block *b;

		assert_int_equal(stream_next_block(s, &b, NULL), 1);
		block_put(b);
	}
	stream_close(s);
	hash_free(h);
	close(fd);
}

static void test_pieces_become_blocks(void **state)
{
	static const size_t steps[] = { 0, 1000, 4096, 65537, BLOCK_SIZE, 3 * BLOCK_SIZE };
	struct stream *s, *t;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		assert_int_equal(stream_new_memory(&s, content, FILE_SIZE, steps[i]), 0);
		check_content(s, FILE_SIZE, 0);
		stream_close(s);
		assert_int_equal(stream_new_memory(&s, content, FILE_SIZE, steps[i]), 0);
		assert_int_equal(stream_new_ahead(&t, s, NULL), 0);
		check_content(t, FILE_SIZE, 9);
		stream_close(t);
	}
}

/* ---- blocks of odd sizes ---- */

struct odd {
	struct stream stream;
	size_t at, n, error_at;
};

static int odd_next_block(struct stream *s, struct block **bp, struct error *err)
{
	static const size_t sizes[] = { 8192, 100, 1, 50000, 4096, 9999, BLOCK_SIZE + 1, 4095 };
	struct odd *o = (struct odd *)s;
	size_t size = sizes[o->n++ % ARRAY_SIZE(sizes)];

	if (o->at >= o->error_at)
		return error_set(err, EBADMSG, "odd");
	if (o->at == FILE_SIZE)
		return 0;
	if (size > FILE_SIZE - o->at)
		size = FILE_SIZE - o->at;
	if (block_new_around(bp, content + o->at, size) < 0)
		return error_set(err, ENOMEM, "out of memory");
	o->at += size;
	return 1;
}

static void odd_close(struct stream *s)
{
	free(s);
}

static struct stream *new_odd(size_t error_at)
{
	static const struct stream_ops ops = { .next_block = odd_next_block, .close = odd_close };
	struct odd *o = calloc(1, sizeof(*o));

	o->stream.ops = &ops;
	o->error_at = error_at;
	return &o->stream;
}

static void test_odd_blocks_are_aligned(void **state)
{
	struct stream *s;

	assert_int_equal(stream_new_aligned(&s, new_odd(SIZE_MAX), NULL), 0);
	check_content(s, FILE_SIZE, 0);
	stream_close(s);
}

static void test_an_error_comes_through_all_stages(void **state)
{
	struct error err = ERROR_INIT;
	struct stream *s, *t;
	size_t before;
	struct block *b;
	int r;

	for (int i = 0; i < 2; i++) {
		before = 0;
		assert_int_equal(stream_new_aligned(&s, new_odd(3 * BLOCK_SIZE), NULL), 0);
		assert_int_equal(stream_new_ahead(&t, s, NULL), 0);
		while ((r = stream_next_block(t, &b, &err)) > 0) {
			before += b->size;
			block_put(b);
		}
		assert_int_equal(r, -EBADMSG);
		assert_string_equal(err.text, "odd");
		assert_in_range(before, BLOCK_SIZE, 3 * BLOCK_SIZE + 50000);
		assert_int_equal(stream_next_block(t, &b, &err), -EBADMSG);
		stream_close(t);
	}
}

static void test_lent_pieces_of_blocks_are_the_same(void **state)
{
	struct stream *s;
	const void *data;
	size_t at = 0;
	ssize_t n;
	int fd = open_content(*state, FILE_SIZE);

	assert_int_equal(stream_new_read_ahead(&s, NULL, fd, NULL, NULL), 0);
	while ((n = stream_next(s, &data, NULL)) > 0) {
		assert_memory_equal(data, content + at, (size_t)n);
		at += (size_t)n;
	}
	assert_int_equal(at, FILE_SIZE);
	stream_close(s);
	close(fd);
}

/* ---- waiting ---- */

static void *stop_soon(void *arg)
{
	for (int i = 0; i < 10; i++)
		nap();
	stream_stop(arg);
	return NULL;
}

static void test_stopping_ends_the_wait_for_a_block(void **state)
{
	struct block *held[STREAM_READ_BLOCKS + 40];
	struct stream *s, *streams[3];
	pthread_t thread;
	size_t n;
	int fd = open_content(*state, FILE_SIZE), r;

	assert_int_equal(stream_new_file(&streams[0], NULL, fd, NULL, NULL), 0);
	assert_int_equal(stream_new_read_ahead(&streams[1], NULL, fd, NULL, NULL), 0);
	assert_int_equal(stream_new_memory(&s, content, FILE_SIZE, 4096), 0);
	assert_int_equal(stream_new_ahead(&streams[2], s, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
		assert_int_equal(pthread_create(&thread, NULL, stop_soon, streams[i]), 0);
		for (n = 0; (r = stream_next_block(streams[i], &held[n], NULL)) > 0; n++)
			;
		assert_int_equal(r, -ECANCELED);
		assert_true(n <= STREAM_READ_BLOCKS);
		pthread_join(thread, NULL);
		stream_close(streams[i]);
		while (n > 0) /* they outlive it */
			block_put(held[--n]);
	}
	close(fd);
}

static void *put_soon(void *arg)
{
	nap();
	block_put(arg);
	return NULL;
}

static void test_a_pool_has_no_more_than_its_blocks(void **state)
{
	struct block *b[3];
	struct block_pool *p;
	unsigned char *buf;
	pthread_t thread;

	assert_int_equal(block_pool_new(&p, 2, 4096), 0);
	assert_int_equal(block_pool_take(p, &b[0]), 0);
	assert_int_equal(block_pool_take(p, &b[1]), 0);
	assert_ptr_equal(block_get(b[0]), b[0]);
	block_put(b[0]); /* one reference is left */
	buf = b[0]->buf;
	assert_int_equal(pthread_create(&thread, NULL, put_soon, b[0]), 0);
	assert_int_equal(block_pool_take(p, &b[2]), 0); /* waited for it */
	assert_ptr_equal(b[2]->buf, buf);
	assert_int_equal(b[2]->size, 0);
	pthread_join(thread, NULL);
	block_pool_set_max(p, 3);
	assert_int_equal(block_pool_take(p, &b[0]), 0);
	block_pool_set_max(p, 1);
	block_put(b[0]);
	block_put(b[1]);
	block_pool_stop(p);
	assert_int_equal(block_pool_take(p, &b[0]), -ECANCELED);
	block_pool_free(p);
	memset(b[2]->buf, 1, 4096); /* still good */
	block_put(b[2]);
	block_put(NULL);
}

/* ---- jobs in order ---- */

struct squares {
	size_t in[5], out[5];
};

static void square(void *arg, size_t slot)
{
	struct squares *s = arg;

	if (s->in[slot] % 3 == 0)
		nap();
	s->out[slot] = s->in[slot] * s->in[slot];
}

static void test_jobs_come_back_in_order(void **state)
{
	struct squares s;
	struct ordered *o;
	size_t popped, pushed;

	for (size_t threads = 0; threads < 5; threads++) {
		assert_int_equal(ordered_new(&o, 5, threads, square, &s), 0);
		for (popped = pushed = 0; popped < 100; popped++) {
			for (; ordered_n_pending(o) < 5 && pushed < 103; pushed++) {
				s.in[ordered_get_slot(o)] = pushed;
				ordered_push(o);
			}
			assert_int_equal(s.out[ordered_pop(o)], popped * popped);
		}
		ordered_free(o); /* with some pending */
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_pool_has_no_more_than_its_blocks),
		cmocka_unit_test(test_jobs_come_back_in_order),
		cmocka_unit_test(test_pieces_become_blocks),
		cmocka_unit_test(test_odd_blocks_are_aligned),
		cmocka_unit_test(test_an_error_comes_through_all_stages),
		cmocka_unit_test_setup_teardown(test_a_file_comes_in_order_and_whole,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_what_others_read_is_left_to_them,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_what_was_begun_is_taken_back,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_who_walks_has_all_blocks, unit_scratch_setup,
						unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_stream_that_walks_is_closed,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_stream_is_closed_with_what_it_left,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_a_file_that_cant_be_read_says_so,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_the_hash_is_of_all_that_was_read,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_lent_pieces_of_blocks_are_the_same,
						unit_scratch_setup, unit_scratch_teardown),
		cmocka_unit_test_setup_teardown(test_stopping_ends_the_wait_for_a_block,
						unit_scratch_setup, unit_scratch_teardown),
	};

	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (unsigned char)(i * 2654435761u >> 13);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
