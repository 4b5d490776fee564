/*
 * copy_file_range() and sendfile() between a network or disk file system and a tmpfs fail or are no
 * faster than reading and writing, so there is one way.
 */
#include "daemon/engines/copy/copy-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/buffer.h"
#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/page.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/copy/stage-io.h"

#define COPY_MIN_HOLE 4096
#define COPY_TRUNCATE_FROM (1 << 20)

bool copy_file_is_sparse(const struct stat *st)
{
	return (uint64_t)st->st_blocks * 512 + COPY_MIN_HOLE < (uint64_t)st->st_size;
}

uint64_t copy_file_charge(const struct stat *st)
{
	uint64_t size = copy_file_is_sparse(st) ? (uint64_t)st->st_blocks * 512
						: (uint64_t)st->st_size;

	return page_round_up(size);
}

mode_t copy_file_mode(mode_t source)
{
	mode_t any = (source | source >> 3 | source >> 6) & 05;

	return (source & 0777) | (source & S_IRUSR ? 0 : any << 6);
}

int copy_file_create(int dirfd, const char *name, const struct stat *st, int *fdp,
		     struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;

	fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		    copy_file_mode(st->st_mode));
	if (fd < 0)
		return error_errno(err, errno, "create %s", name);
	if ((st->st_size >= COPY_TRUNCATE_FROM || copy_file_is_sparse(st)) &&
	    ftruncate(fd, st->st_size) < 0)
		return error_errno(err, errno, "set the size of %s", name);
	*fdp = steal_fd(&fd);
	return 0;
}

static int write_at(int fd, const char *p, size_t size, uint64_t offset, struct error *err)
{
	int r = fd_pwrite_all(fd, p, size, offset);

	return r < 0 ? error_errno(err, -r, "write") : 0;
}

int copy_file_write(int out, const char *buf, size_t size, struct error *err)
{
	return write_at(out, buf, size, 0, err);
}

int copy_file_close(int *fdp, struct error *err)
{
	int fd = steal_fd(fdp);

	return close(fd) < 0 ? error_errno(err, errno, "write") : 0;
}

/* Data for copying a part of a file. */
struct piece {
	struct stage_io *io;
	int in, out;
	uint64_t shift; /* input offset = output offset + shift (modulo 2^64) */
	char *buf;
	size_t buf_size;
	struct hash *hash;
	uint64_t read_us;
};

static ssize_t read_at(struct piece *p, size_t size, uint64_t offset)
{
	size_t room = p->buf_size - offset % p->buf_size; /* ends at a page boundary of out */
	uint64_t before = clock_us();
	ssize_t n;

	do
		n = pread(p->in, p->buf, size < room ? size : room, (off_t)(offset + p->shift));
	while (n < 0 && errno == EINTR);
	p->read_us += clock_us() - before;
	return n;
}

static int copy_extent(struct piece *p, uint64_t from, uint64_t to, struct error *err)
{
	ssize_t n;
	int r;

	while (from < to) {
		r = stage_io_check(p->io, err);
		if (r < 0)
			return r;
		n = read_at(p, to - from, from);
		if (n < 0)
			return error_errno(err, errno, "read");
		if (n == 0)
			return error_set(err, ESTALE, "became shorter while it was read");
		if (p->hash)
			hash_add(p->hash, p->buf, (size_t)n);
		r = write_at(p->out, p->buf, (size_t)n, from, err);
		if (r < 0)
			return r;
		from += (uint64_t)n;
		stage_io_add_progress(p->io, (uint64_t)n, 0);
	}
	return 0;
}

/* Finds the next data at or after *fromp. Returns false if there is none before to. On a file
 * system without SEEK_DATA, everything is data. */
static bool next_extent(int in, uint64_t *fromp, uint64_t to, uint64_t *endp)
{
	off_t data = lseek(in, (off_t)*fromp, SEEK_DATA), hole;

	if (data < 0 && errno == ENXIO)
		return false;
	*endp = to;
	if (data < 0)
		return true;
	if ((uint64_t)data >= to)
		return false;
	*fromp = (uint64_t)data;
	hole = lseek(in, data, SEEK_HOLE);
	if (hole >= 0 && (uint64_t)hole < to)
		*endp = (uint64_t)hole;
	return true;
}

void copy_file_look_for_holes(int fd, struct stat *st)
{
	uint64_t size = (uint64_t)st->st_size, end, sum = 0;

	if (!copy_file_is_sparse(st))
		return;
	for (uint64_t from = 0; from < size && next_extent(fd, &from, size, &end); from = end)
		sum += end - from;
	st->st_blocks = (blkcnt_t)((sum + 511) / 512);
}

void copy_file_look_for_holes_at(int dirfd, const char *name, struct stat *st)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat now;

	if (!S_ISREG(st->st_mode) || !copy_file_is_sparse(st))
		return;
	fd = openat(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &now) == 0 && now.st_ino == st->st_ino && now.st_dev == st->st_dev)
		copy_file_look_for_holes(fd, st);
}

/* Adds n zeros to the hash, for a hole, which is not read. */
static int hash_hole(struct piece *p, uint64_t n, struct error *err)
{
	size_t part;
	int r;

	memset(p->buf, 0, n < p->buf_size ? (size_t)n : p->buf_size);
	for (; n > 0; n -= part) {
		r = stage_io_check(p->io, err);
		if (r < 0)
			return r;
		part = n < p->buf_size ? (size_t)n : p->buf_size;
		hash_add(p->hash, p->buf, part);
		stage_io_add_unread(p->io, part, 0);
	}
	return 0;
}

static int copy_sparse(struct piece *p, uint64_t from, uint64_t to, struct error *err)
{
	uint64_t begin, end;
	bool more = true;
	int r = 0;

	for (; from < to && more && r == 0; from = end) {
		begin = from;
		more = next_extent(p->in, &begin, to, &end);
		if (!more)
			begin = end = to;
		if (p->hash && begin > from)
			r = hash_hole(p, begin - from, err);
		if (r == 0)
			r = copy_extent(p, begin, end, err);
	}
	return r;
}

int copy_file_part(struct stage_io *io, int in, int out, uint64_t from, uint64_t to, bool sparse,
		   char *buf, size_t buf_size, uint64_t *read_usp, struct error *err)
{
	struct piece p = {
		.io = io,
		.in = in,
		.out = out,
		.buf = buf,
		.buf_size = buf_size,
	};
	int r;

	r = sparse ? copy_sparse(&p, from, to, err) : copy_extent(&p, from, to, err);
	*read_usp = p.read_us;
	return r;
}

int copy_file_shifted(struct stage_io *io, int in, uint64_t in_at, int out, uint64_t from,
		      uint64_t to, char *buf, size_t buf_size, struct error *err)
{
	struct piece p = {
		.io = io,
		.in = in,
		.out = out,
		.shift = in_at - from,
		.buf = buf,
		.buf_size = buf_size,
	};

	return copy_extent(&p, from, to, err);
}

int copy_file_range_data(struct stage_io *io, int in, int out, uint64_t from, uint64_t to,
			 bool sparse, struct hash *hash, struct error *err)
{
	_cleanup_(freep) char *buf = buffer_new(COPY_BUFFER_SIZE);
	struct piece p = {
		.io = io,
		.in = in,
		.out = out,
		.buf = buf,
		.buf_size = COPY_BUFFER_SIZE,
		.hash = hash,
	};

	if (!buf)
		return error_set(err, ENOMEM, "out of memory");
	return sparse ? copy_sparse(&p, from, to, err) : copy_extent(&p, from, to, err);
}

int copy_file_look(int fd, struct stat *st)
{
	const unsigned int mask = STATX_TYPE | STATX_MODE | STATX_SIZE | STATX_MTIME;
	struct statx sx;

	if (statx(fd, "", AT_EMPTY_PATH, mask, &sx) < 0 || (sx.stx_mask & mask) != mask)
		return fstat(fd, st) < 0 ? -errno : 0;
	*st = (struct stat){ .st_mode = sx.stx_mode, .st_size = (off_t)sx.stx_size };
	st->st_mtim.tv_sec = sx.stx_mtime.tv_sec;
	st->st_mtim.tv_nsec = sx.stx_mtime.tv_nsec;
	return 0;
}

bool copy_file_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int copy_file_finish(int in, int out, const struct stat *st, struct error *err)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	struct stat now;
	int once_more, r;

	if (fstat(in, &now) < 0)
		return error_errno(err, errno, "look at it again");
	if (!copy_file_is_same(&now, st))
		return error_set(err, ESTALE, "changed while it was copied");
	once_more = fcntl(out, F_DUPFD_CLOEXEC, 0);
	if (once_more < 0)
		return error_errno(err, errno, "write");
	r = copy_file_close(&once_more, err);
	if (r < 0)
		return r;
	if (futimens(out, times) < 0)
		return error_errno(err, errno, "set its time");
	return 0;
}
