/*
 * A file, block by block.
 */
#include <errno.h>
#include <unistd.h>

#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/hash.h"
#include "daemon/worker/stream.h"

struct file_stream {
	struct stream stream;
	struct ctx *ctx;
	struct hash *hash;
	int fd;
	uint64_t offset;
};

/* As much as fits, or until the end of the file. */
static int fill(struct file_stream *f, struct block *b, struct error *err)
{
	ssize_t n;

	do {
		n = pread(f->fd, b->buf + b->size, b->capacity - b->size, (off_t)f->offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read the source");
		b->size += (size_t)n;
		f->offset += (uint64_t)n;
	} while (n != 0 && b->size < b->capacity);
	return b->size > 0;
}

static int file_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct file_stream *f = (struct file_stream *)s;
	_cleanup_(block_putp) struct block *b = NULL;
	int r;

	r = f->ctx ? ctx_check(f->ctx, err) : 0;
	if (r < 0)
		return r;
	r = stream_take_block(s, &b, err);
	if (r < 0)
		return r;
	r = fill(f, b, err);
	if (r <= 0)
		return r;
	if (f->hash)
		hash_add(f->hash, b->data, b->size);
	if (f->ctx)
		ctx_add_progress(f->ctx, b->size, 0);
	*bp = steal_ptr(b);
	return 1;
}

static void file_close(struct stream *s)
{
	free(s);
}

int stream_new_file(struct stream **sp, struct ctx *ctx, int fd, struct hash *hash,
		    struct error *err)
{
	static const struct stream_ops ops = {
		.next_block = file_next_block,
		.close = file_close,
	};
	struct file_stream *f = calloc(1, sizeof(*f));
	struct block_pool *pool;

	if (!f || block_pool_new(&pool, STREAM_READ_BLOCKS, BLOCK_SIZE) < 0) {
		free(f);
		return error_set(err, ENOMEM, "out of memory");
	}
	f->stream.ops = &ops;
	f->stream.pool = pool;
	f->ctx = ctx;
	f->fd = fd;
	f->hash = hash;
	*sp = &f->stream;
	return 0;
}

int stream_new_read_ahead(struct stream **sp, struct ctx *ctx, int fd, struct hash *hash,
			  struct error *err)
{
	_cleanup_(stream_closep) struct stream *file = NULL;
	int r;

	r = stream_new_file(&file, ctx, fd, hash, err);
	if (r == 0)
		r = stream_new_ahead(sp, file, err);
	if (r == 0)
		steal_ptr(file);
	return r;
}
