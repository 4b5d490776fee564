/*
 * A file as a stream. The calling thread reads it block by block.
 */
#include <errno.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/fd.h"
#include "daemon/engines/archive/stream.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/copy/stage-io.h"

struct file_stream {
	struct stream stream;
	struct stage_io *io;
	struct hash *hash;
	int fd;
	uint64_t offset;
};

int stream_fill_block(int fd, struct block *b, size_t size, uint64_t offset, struct error *err)
{
	ssize_t n = fd_pread_all(fd, b->buf + b->size, size - b->size, offset + b->size);

	if (n < 0)
		return error_errno(err, (int)-n, "read the source");
	b->size += (size_t)n;
	return 0;
}

static int file_next_block(struct stream *s, struct block **bp, struct error *err)
{
	struct file_stream *f = (struct file_stream *)s;
	_cleanup_(block_putp) struct block *b = NULL;
	int r;

	r = stage_io_check(f->io, err);
	if (r == 0)
		r = stream_take_block(s, &b, err);
	if (r == 0)
		r = stream_fill_block(f->fd, b, b->capacity, f->offset, err);
	if (r < 0 || b->size == 0)
		return r;
	f->offset += b->size;
	if (f->hash)
		hash_add_block(f->hash, b);
	stage_io_add_progress(f->io, b->size, 0);
	*bp = steal_ptr(b);
	return 1;
}

static void file_close(struct stream *s)
{
	free(s);
}

int stream_new_file(struct stream **sp, struct stage_io *io, int fd, struct hash *hash,
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
	*f = (struct file_stream){ { &ops, pool }, io, hash, fd };
	*sp = &f->stream;
	return 0;
}
