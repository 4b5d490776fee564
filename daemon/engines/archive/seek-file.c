/*
 * A piece is small after a part of the file was skipped, because the next header may be all that is
 * needed there. It doubles as long as nothing is skipped. Progress is the number of bytes that were
 * read, at most the file's size, and not the position: a reader that first looks for a list at the
 * end of the file would otherwise be at 100 %.
 */
#include "daemon/engines/archive/seek-file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/buffer.h"
#include "common/util/error.h"
#include "daemon/engines/archive/zip-names.h"
#include "daemon/engines/copy/stage-io.h"

#define SEEK_FILE_PIECE (1u << 20)
#define SEEK_FILE_MIN_PIECE (16u << 10)

struct seek_file {
	struct stage_io *io;
	int fd;
	uint64_t at, size;
	size_t piece;	    /* size of the next read */
	uint64_t uncounted; /* bytes of the file that were not counted yet */
	struct zip_names *names;
	char *buf;
};

int seek_file_new(struct seek_file **fp, struct stage_io *io, int fd, struct error *err)
{
	_cleanup_(seek_file_freep) struct seek_file *f = calloc(1, sizeof(*f));
	struct stat st;
	int r;

	if (!f || !(f->buf = buffer_new(SEEK_FILE_PIECE)))
		return error_set(err, ENOMEM, "out of memory");
	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "read the source");
	f->io = io;
	f->fd = fd;
	f->size = (uint64_t)st.st_size;
	f->piece = SEEK_FILE_PIECE;
	r = zip_names_new(&f->names, io, fd, &f->size, err);
	if (r < 0)
		return r;
	f->uncounted = (uint64_t)st.st_size;
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

const struct zip_names *seek_file_get_names(const struct seek_file *f)
{
	return f->names;
}

/* Returns how many of n bytes count as progress. */
static uint64_t count(struct seek_file *f, uint64_t n)
{
	n = n < f->uncounted ? n : f->uncounted;
	f->uncounted -= n;
	return n;
}

ssize_t seek_file_read(struct seek_file *f, const void **datap, struct error *err)
{
	size_t size = f->piece;
	ssize_t n;
	int r = stage_io_check(f->io, err);

	if (r < 0)
		return r;
	if (f->at < f->size && f->size - f->at < size)
		size = (size_t)(f->size - f->at);
	else if (f->at >= f->size)
		size = 0;
	do
		n = pread(f->fd, f->buf, size, (off_t)f->at);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_errno(err, errno, "read the source");
	zip_names_adapt(f->names, f->buf, (size_t)n, f->at);
	f->at += (uint64_t)n;
	f->piece = f->piece < SEEK_FILE_PIECE ? 2 * f->piece : SEEK_FILE_PIECE;
	stage_io_add_progress(f->io, count(f, (uint64_t)n), 0);
	*datap = f->buf;
	return n;
}

void seek_file_skip(struct seek_file *f, uint64_t n)
{
	f->at += n;
	f->piece = SEEK_FILE_MIN_PIECE;
	stage_io_add_unread(f->io, count(f, n), 0);
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
