/*
 * stage-fetch writes the object to a pipe and closes it. Then it sends a message that says whether
 * the object was complete.
 */
#include "daemon/worker/web/fetch-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/engines/copy/hash.h"
#include "daemon/worker/ctx.h"

#define POLL_MS 200

struct fetch_stream {
	struct stream stream;
	struct ctx *ctx;
	struct fetch *f;
	struct hash *hash;
	int fd;
	uint32_t id;
	bool ended;
};

static int wait_readable(struct fetch_stream *s, struct error *err)
{
	struct pollfd p = { s->fd, POLLIN, 0 };
	int r;

	for (;;) {
		r = ctx_check(s->ctx, err);
		if (r < 0)
			return r;
		if (atomic_load(&s->stream.stopped))
			return error_set(err, ECANCELED, "stopped");
		r = poll(&p, 1, POLL_MS);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return error_errno(err, errno, "wait for the source");
	}
}

/* Called at the end of the pipe: waits for the message that says whether the object was
 * complete. */
static int ask_how_it_ended(struct fetch_stream *s, struct error *err)
{
	struct fetch_event e;
	int r;

	do {
		r = fetch_wait(s->f, s->ctx, 1000, &e, err);
		if (r < 0)
			return r;
	} while (r == 0 || e.id != s->id || e.what == FETCH_CAME);
	if (e.what == FETCH_DONE)
		return 0;
	if (err)
		*err = e.error;
	return e.error.code;
}

static int fill(struct fetch_stream *s, struct block *b, struct error *err)
{
	ssize_t n;
	int r;

	while (b->size < b->capacity) {
		r = wait_readable(s, err);
		if (r < 0)
			return r;
		n = read(s->fd, b->buf + b->size, b->capacity - b->size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read the source");
		if (n == 0) {
			s->ended = true;
			return ask_how_it_ended(s, err);
		}
		b->size += (size_t)n;
		ctx_add_progress(s->ctx, (uint64_t)n, 0);
	}
	return 0;
}

static int fetch_next_block(struct stream *stream, struct block **bp, struct error *err)
{
	struct fetch_stream *s = (struct fetch_stream *)stream;
	_cleanup_(block_putp) struct block *b = NULL;
	int r;

	if (s->ended)
		return 0;
	r = stream_take_block(stream, &b, err);
	if (r == 0)
		r = fill(s, b, err);
	if (r < 0 || b->size == 0)
		return r;
	if (s->hash)
		hash_add_block(s->hash, b);
	*bp = steal_ptr(b);
	return 1;
}

static void fetch_close(struct stream *stream)
{
	struct fetch_stream *s = (struct fetch_stream *)stream;

	fd_closep(&s->fd); /* a writer gets EPIPE and ends */
	if (!s->ended)
		fetch_stop(s->f);
	free(s);
}

static int begin(struct fetch_stream *s, const struct fetch_object *object, struct error *err)
{
	const struct fetch_get get = {
		.url = object->url,
		.to = HTTP_END,
		.any_end = s->hash != NULL,
		.is_pipe = true,
		.known = &object->validator,
		.known_total = object->size,
	};
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return error_errno(err, errno, "make a pipe");
	fcntl(fds[1], F_SETPIPE_SZ, BLOCK_SIZE); /* the size that streams are allowed to buffer */
	s->fd = fds[0];
	r = fetch_get(s->f, &get, fds[1], &s->id, err);
	close(fds[1]);
	return r;
}

int fetch_stream_new(struct stream **sp, struct ctx *ctx, struct fetch *f,
		     const struct fetch_object *object, struct hash *hash, struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = fetch_next_block,
		.close = fetch_close,
	};
	struct fetch_stream *s = calloc(1, sizeof(*s));
	struct block_pool *pool;
	int r;

	if (!s || block_pool_new(&pool, STREAM_READ_BLOCKS, BLOCK_SIZE) < 0) {
		free(s);
		return error_set(err, ENOMEM, "out of memory");
	}
	s->stream.ops = &ops;
	s->stream.pool = pool;
	s->ctx = ctx;
	s->f = f;
	s->hash = hash;
	s->fd = -1;
	r = begin(s, object, err);
	if (r < 0) {
		stream_close(&s->stream);
		return r;
	}
	*sp = &s->stream;
	return 0;
}
