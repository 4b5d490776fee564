/*
 * Who looks for a list at the end of the file first would have done all of it if progress were
 * where he is. So it is how much he has read, no more than there is.
 */
#include "daemon/worker/unpack/seek-file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/unpack/buffer.h"
#include "daemon/worker/unpack/zip-names.h"

#define SEEK_FILE_PIECE (1u << 20)

struct seek_file {
	struct ctx *ctx;
	int fd;
	uint64_t at, size;
	uint64_t uncounted; /* of size */
	struct zip_names *names;
	char *buf;
};

int seek_file_new(struct seek_file **fp, struct ctx *ctx, int fd, struct error *err)
{
	_cleanup_(seek_file_freep) struct seek_file *f = calloc(1, sizeof(*f));
	struct stat st;
	int r;

	if (!f || !(f->buf = buffer_new(SEEK_FILE_PIECE)))
		return error_set(err, ENOMEM, "out of memory");
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "read the source");
	f->ctx = ctx;
	f->fd = fd;
	f->size = f->uncounted = (uint64_t)st.st_size;
	r = zip_names_new(&f->names, fd, f->size);
	if (r < 0)
		return error_errno(err, -r, "read the source");
	*fp = steal_ptr(f);
	return 0;
}

void seek_file_free(struct seek_file *f)
{
	if (!f)
		return;
	zip_names_free(f->names);
	free(f->buf);
	free(f);
}

/* How many of n bytes are progress. */
static uint64_t count(struct seek_file *f, uint64_t n)
{
	n = n < f->uncounted ? n : f->uncounted;
	f->uncounted -= n;
	return n;
}

ssize_t seek_file_read(struct seek_file *f, const void **datap, struct error *err)
{
	ssize_t n;
	int r = f->ctx ? ctx_check(f->ctx, err) : 0;

	if (r < 0)
		return r;
	do
		n = pread(f->fd, f->buf, SEEK_FILE_PIECE, (off_t)f->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read the source");
	zip_names_keep(f->names, f->buf, (size_t)n, f->at);
	f->at += (uint64_t)n;
	if (f->ctx)
		ctx_add_progress(f->ctx, count(f, (uint64_t)n), 0);
	*datap = f->buf;
	return n;
}

void seek_file_skip(struct seek_file *f, uint64_t n)
{
	f->at += n;
	if (f->ctx)
		ctx_add_unread(f->ctx, count(f, n), 0);
}

int64_t seek_file_seek(struct seek_file *f, int64_t offset, int whence)
{
	int64_t from = whence == SEEK_CUR   ? (int64_t)f->at
		       : whence == SEEK_END ? (int64_t)f->size
					    : 0;
	int64_t to;

	if (__builtin_add_overflow(from, offset, &to) || to < 0)
		return -EINVAL;
	f->at = (uint64_t)to;
	return to;
}
