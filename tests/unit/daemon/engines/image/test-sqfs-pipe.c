#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/engines/image/sqfs-pipe.h"

enum { SIZE = 3 << 20 };

/* clang-format off */
static const struct {
	struct sqfs_span spans[3];
	int expect;
} cases[] = {
	{ { { 0,          4096 } },    0           },
	{ { { 1,          131072 } },  0           },
	{ { { 4095,       131074 } },  0           },
	{ { { SIZE - 10,  11 } },      -EIO        }, /* and the next still works */
	{ { { SIZE - 10,  10 } },      0           },
	{ { { 77,         500000 } },  0           },
	{ { { 5,          SIZE / 2 } }, -EOPNOTSUPP }, /* no user may have such a pipe */
	{ { { 5,          1 } },       0           },
	{ { { UINT64_MAX, 1 } },       -EOPNOTSUPP },
	{ { { SIZE,       1 } },       -EIO        },
	{ { { 12345,      262144 } },  0           },
	/* a block and the end of a file in a fragment; pages begun and ended by each */
	{ { { 4095, 131074 }, { 1, 70001 } },               0           },
	{ { { 70000, 1 }, { 4095, 2 }, { 0, 250000 } },     0           },
	{ { { 0, 4096 }, { SIZE - 1, 2 } },                 -EIO        },
	{ { { 0, 4096 }, { UINT64_MAX, 1 } },               -EOPNOTSUPP },
	{ { { 0, SIZE_MAX / 2 }, { 0, SIZE_MAX / 2 } },     -EOPNOTSUPP },
	{ { { 9, 4096 }, { 8, 4096 }, { 7, 4096 } },        0           },
};
/* clang-format on */

static size_t count_spans(const struct sqfs_span *spans)
{
	size_t n = 0;

	while (n < 3 && spans[n].size > 0)
		n++;
	return n;
}

static int say(void *arg)
{
	return *(int *)arg;
}

static void test_what_is_sent_is_head_and_content(void **state)
{
	static uint8_t data[SIZE], got[SIZE];
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);

	for (size_t i = 0; i < SIZE; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 16);
	assert_int_equal(pwrite(in, data, SIZE, 0), SIZE);
	if (getuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct sqfs_span *spans = cases[i].spans;
		size_t n = count_spans(spans), at = 4;
		ssize_t size;
		int r;

		assert_int_equal(ftruncate(out, 0), 0);
		assert_int_equal(lseek(out, 0, SEEK_SET), 0);
		r = sqfs_pipe_send(out, "head", 4, in, spans, n, say, &(int){ 0 });
		if (r != cases[i].expect)
			fail_msg("case %zu: %d", i, r);
		size = pread(out, got, SIZE, 0);
		if (r < 0) {
			assert_int_equal(size, 0);
			continue;
		}
		assert_memory_equal(got, "head", 4);
		for (size_t k = 0; k < n; at += spans[k++].size)
			assert_memory_equal(got + at, data + spans[k].offset, spans[k].size);
		assert_int_equal(size, at);
	}
	assert_int_equal(seteuid(getuid()), 0);
	close(in);
	close(out);
}

/* Writes into a file whose pages are on their way. */
struct change {
	int fd, says;
};

static int change(void *arg)
{
	const struct change *c = arg;

	assert_int_equal(pwrite(c->fd, "new", 3, 0), 3);
	return c->says;
}

/* Nothing of a file that changed in between is sent, and nothing of it comes with the next. */
static void test_what_changes_on_its_way_is_not_sent(void **state)
{
	int in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
	const struct sqfs_span span = { 0, 8192 };
	struct change c = { in, -ESTALE };
	char got[8];

	assert_int_equal(pwrite(in, "old", 3, 0), 3);
	assert_int_equal(ftruncate(in, 8192), 0);
	assert_int_equal(sqfs_pipe_send(out, "head", 4, in, &span, 1, change, &c), -ESTALE);
	assert_int_equal(lseek(out, 0, SEEK_END), 0);
	c.says = 0;
	assert_int_equal(sqfs_pipe_send(out, "head", 4, in, &span, 1, change, &c), 0);
	assert_int_equal(lseek(out, 0, SEEK_END), 4 + 8192);
	assert_int_equal(pread(out, got, 7, 0), 7);
	assert_memory_equal(got, "headnew", 7);
	close(in);
	close(out);
}

/* Each thread sends once, while the others wait for their turn, as the threads of a server do that
 * has one reader. */
struct turns {
	int in, out;
	pthread_barrier_t all;
	pthread_mutex_t lock;
};

static void *send_once(void *arg)
{
	const struct sqfs_span span = { 0, 4096 };
	struct turns *t = arg;

	pthread_barrier_wait(&t->all);
	pthread_mutex_lock(&t->lock);
	assert_int_equal(sqfs_pipe_send(t->out, "head", 4, t->in, &span, 1, say, &(int){ 0 }), 0);
	pthread_mutex_unlock(&t->lock);
	pthread_barrier_wait(&t->all);
	return NULL;
}

static size_t count_pipes(void)
{
	char path[64], to[64];
	size_t n = 0;

	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, to, sizeof(to)) > 5 && !memcmp(to, "pipe:", 5))
			n++;
	}
	return n;
}

/* Pipes of one user have a limit, and all his programs share it. Red when each thread keeps a
 * pipe. */
static void test_threads_share_pipes(void **state)
{
	struct turns t = { .in = memfd_create("in", MFD_CLOEXEC),
			   .out = memfd_create("out", MFD_CLOEXEC) };
	const size_t before = count_pipes();
	pthread_t threads[16];

	assert_int_equal(ftruncate(t.in, 4096), 0);
	pthread_barrier_init(&t.all, NULL, ARRAY_SIZE(threads) + 1);
	pthread_mutex_init(&t.lock, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, send_once, &t), 0);
	pthread_barrier_wait(&t.all);
	pthread_barrier_wait(&t.all);
	assert_true(count_pipes() <= before + 2);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&t.all);
	pthread_mutex_destroy(&t.lock);
	close(t.in);
	close(t.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_sent_is_head_and_content),
		cmocka_unit_test(test_what_changes_on_its_way_is_not_sent),
		cmocka_unit_test(test_threads_share_pipes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
