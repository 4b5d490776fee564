/*
 * A thread reads a stream and queues its blocks. The pool of the blocks and the length of the queue
 * limit how far it reads ahead.
 */
#include <errno.h>
#include <pthread.h>

#include "common/util/error.h"
#include "daemon/engines/archive/stream.h"

#define AHEAD_BLOCKS 32

struct ahead_stream {
	struct stream stream;
	struct stream *in;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t head, tail; /* numbers of queued and of taken blocks */
	struct block *queue[AHEAD_BLOCKS];
	bool stopped;
	int end; /* 1: the stream continues; otherwise its last result: 0 or -errno */
	struct error error;
};

/* Queues a block for the reader. Returns false if the stream was stopped. */
static bool hand_over(struct ahead_stream *a, struct block *b)
{
	bool stopped;

	pthread_mutex_lock(&a->lock);
	while (a->head - a->tail == AHEAD_BLOCKS && !a->stopped)
		pthread_cond_wait(&a->changed, &a->lock);
	stopped = a->stopped;
	if (!stopped) {
		a->queue[a->head++ % AHEAD_BLOCKS] = b;
		pthread_cond_broadcast(&a->changed);
	}
	pthread_mutex_unlock(&a->lock);
	if (stopped)
		block_put(b);
	return !stopped;
}

static void *ahead_thread(void *arg)
{
	struct ahead_stream *a = arg;
	struct block *b;
	int r;

	while ((r = stream_next_block(a->in, &b, &a->error)) > 0) {
		if (!hand_over(a, b)) {
			r = error_set(&a->error, ECANCELED, "stopped");
			break;
		}
	}
	pthread_mutex_lock(&a->lock);
	a->end = r;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

static int ahead_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct ahead_stream *a = (struct ahead_stream *)s;
	int r = 1;

	pthread_mutex_lock(&a->lock);
	while (a->head == a->tail && a->end > 0 && !a->stopped)
		pthread_cond_wait(&a->changed, &a->lock);
	if (a->stopped) {
		r = error_set(err, ECANCELED, "stopped");
	} else if (a->head != a->tail) {
		*bp = a->queue[a->tail++ % AHEAD_BLOCKS];
		pthread_cond_broadcast(&a->changed);
	} else {
		r = a->end;
		if (r < 0 && err)
			*err = a->error;
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

static void ahead_stop(struct stream *s)
{
	struct ahead_stream *a = (struct ahead_stream *)s;

	pthread_mutex_lock(&a->lock);
	a->stopped = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	stream_stop(a->in);
}

static void ahead_free(struct ahead_stream *a)
{
	while (a->tail != a->head)
		block_put(a->queue[a->tail++ % AHEAD_BLOCKS]);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

static void ahead_close(struct stream *s)
{
	struct ahead_stream *a = (struct ahead_stream *)s;

	ahead_stop(s);
	pthread_join(a->thread, NULL);
	stream_close(a->in);
	ahead_free(a);
}

int stream_new_ahead(struct stream **sp, struct stream *in, struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = ahead_next_block,
		.stop = ahead_stop,
		.close = ahead_close,
	};
	struct ahead_stream *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return error_set(err, ENOMEM, "out of memory");
	a->stream.ops = &ops;
	a->in = in;
	a->end = 1;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	r = pthread_create(&a->thread, NULL, ahead_thread, a);
	if (r) {
		ahead_free(a);
		return error_errno(err, r, "start thread");
	}
	*sp = &a->stream;
	return 0;
}
