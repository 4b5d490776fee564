#include "daemon/worker/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/hash.h"

#define AHEAD_BLOCKS 8

int stream_drain(struct stream *s, struct error *err)
{
	const void *data;
	ssize_t n;

	do {
		n = stream_next(s, &data, err);
	} while (n > 0);
	return (int)n;
}

/* ---- a file ---- */

struct file_stream {
	struct stream stream;
	struct ctx *ctx;
	struct hash *hash;
	int fd;
	uint64_t offset;
	char *buf;
};

static ssize_t file_next(struct stream *s, const void **datap, struct error *err)
{
	struct file_stream *f = (struct file_stream *)s;
	ssize_t n;
	int r;

	r = f->ctx ? ctx_check(f->ctx, err) : 0;
	if (r < 0)
		return r;
	do {
		n = pread(f->fd, f->buf, STREAM_READ_SIZE, (off_t)f->offset);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read the source");
	if (n == 0)
		return 0;
	f->offset += (uint64_t)n;
	if (f->hash)
		hash_add(f->hash, f->buf, (size_t)n);
	if (f->ctx)
		ctx_add_progress(f->ctx, (uint64_t)n, 0);
	*datap = f->buf;
	return n;
}

static void file_close(struct stream *s)
{
	struct file_stream *f = (struct file_stream *)s;

	free(f->buf);
	free(f);
}

int stream_new_file(struct stream **sp, struct ctx *ctx, int fd, struct hash *hash,
		    struct error *err)
{
	static const struct stream_ops ops = { file_next, file_close };
	struct file_stream *f = calloc(1, sizeof(*f));

	if (!f || !(f->buf = malloc(STREAM_READ_SIZE))) {
		free(f);
		return error_set(err, ENOMEM, "out of memory");
	}
	f->stream.ops = &ops;
	f->ctx = ctx;
	f->fd = fd;
	f->hash = hash;
	*sp = &f->stream;
	return 0;
}

/* ---- memory ---- */

struct memory_stream {
	struct stream stream;
	const char *data;
	size_t size, step;
};

static ssize_t memory_next(struct stream *s, const void **datap, struct error *err)
{
	struct memory_stream *m = (struct memory_stream *)s;
	size_t n = m->step && m->step < m->size ? m->step : m->size;

	*datap = m->data;
	m->data += n;
	m->size -= n;
	return (ssize_t)n;
}

static void memory_close(struct stream *s)
{
	free(s);
}

int stream_new_memory(struct stream **sp, const void *data, size_t size, size_t step)
{
	static const struct stream_ops ops = { memory_next, memory_close };
	struct memory_stream *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	*m = (struct memory_stream){ { &ops }, data, size, step };
	*sp = &m->stream;
	return 0;
}

/* ---- a thread that reads ahead ---- */

struct ahead_stream {
	struct stream stream;
	struct stream *in;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t head, tail; /* blocks filled and taken so far */
	bool holding;      /* the reader has block tail lent */
	bool closed;
	ssize_t end;       /* 1: goes on; else what the reader gets last: 0 or -errno */
	struct error error;
	size_t sizes[AHEAD_BLOCKS];
	char *blocks;
};

static bool wait_for_room(struct ahead_stream *a)
{
	bool closed;

	pthread_mutex_lock(&a->lock);
	while (a->head - a->tail == AHEAD_BLOCKS && !a->closed)
		pthread_cond_wait(&a->changed, &a->lock);
	closed = a->closed;
	pthread_mutex_unlock(&a->lock);
	return !closed;
}

static void hand_over(struct ahead_stream *a, size_t size, ssize_t end)
{
	pthread_mutex_lock(&a->lock);
	if (size > 0)
		a->sizes[a->head++ % AHEAD_BLOCKS] = size;
	a->end = end;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

/* Fills whole blocks: readers rely on pieces of a tar never being split below its block size. */
static void *ahead_thread(void *arg)
{
	struct ahead_stream *a = arg;
	const char *data = NULL;
	ssize_t left = 0;
	size_t filled, n;
	char *block;

	for (;;) {
		if (!wait_for_room(a))
			return NULL;
		block = a->blocks + (a->head % AHEAD_BLOCKS) * STREAM_AHEAD_SIZE;
		for (filled = 0; filled < STREAM_AHEAD_SIZE; filled += n) {
			if (left == 0)
				left = stream_next(a->in, (const void **)&data, &a->error);
			if (left <= 0)
				break;
			n = STREAM_AHEAD_SIZE - filled;
			n = (size_t)left < n ? (size_t)left : n;
			memcpy(block + filled, data, n);
			data += n;
			left -= (ssize_t)n;
		}
		if (filled < STREAM_AHEAD_SIZE) {
			hand_over(a, filled, left);
			return NULL;
		}
		hand_over(a, filled, 1);
	}
}

static ssize_t ahead_next(struct stream *s, const void **datap, struct error *err)
{
	struct ahead_stream *a = (struct ahead_stream *)s;
	ssize_t n;

	pthread_mutex_lock(&a->lock);
	if (a->holding) {
		a->tail++;
		a->holding = false;
		pthread_cond_signal(&a->changed);
	}
	while (a->head == a->tail && a->end > 0)
		pthread_cond_wait(&a->changed, &a->lock);
	if (a->head != a->tail) {
		*datap = a->blocks + (a->tail % AHEAD_BLOCKS) * STREAM_AHEAD_SIZE;
		n = (ssize_t)a->sizes[a->tail % AHEAD_BLOCKS];
		a->holding = true;
	} else {
		n = a->end;
		if (n < 0 && err)
			*err = a->error;
	}
	pthread_mutex_unlock(&a->lock);
	return n;
}

static void ahead_close(struct stream *s)
{
	struct ahead_stream *a = (struct ahead_stream *)s;

	pthread_mutex_lock(&a->lock);
	a->closed = true;
	pthread_cond_signal(&a->changed);
	pthread_mutex_unlock(&a->lock);
	pthread_join(a->thread, NULL);
	stream_close(a->in);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a->blocks);
	free(a);
}

int stream_new_ahead(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = { ahead_next, ahead_close };
	struct ahead_stream *a = calloc(1, sizeof(*a));
	int r;

	if (!a || !(a->blocks = malloc((size_t)AHEAD_BLOCKS * STREAM_AHEAD_SIZE))) {
		free(a);
		return error_set(err, ENOMEM, "out of memory");
	}
	a->stream.ops = &ops;
	a->in = in;
	a->end = 1;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	r = pthread_create(&a->thread, NULL, ahead_thread, a);
	if (r) {
		free(a->blocks);
		free(a);
		return error_errno(err, r, "start thread");
	}
	*sp = &a->stream;
	return 0;
}
