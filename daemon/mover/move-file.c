/*
 * The checksum of each piece is computed while the piece is copied. After an interrupted mover, a
 * piece is read back and compared with its record: after a crash, the record may be on the disk
 * although the piece is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/buffer.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/rmtree.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/copy-ranges.h"
#include "daemon/engines/copy/link-table.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/mover/move.h"

_Static_assert(RECORD_PIECE == COPY_RANGE_SIZE, "a piece is a range");

struct moving {
	struct move *move;
	struct walk_dir *dir; /* a reference; released by moving_free() */
	int in, out;
	struct stat st;
	const struct record_entry *old; /* record of the data that the file already has; NULL:
					 * none */
	struct record_sum *sums;
	size_t n_sums;
	char path[];
};

static void moving_free(struct moving *f)
{
	if (!f)
		return;
	fd_closep(&f->in);
	fd_closep(&f->out);
	walk_dir_put(f->move->walk, f->dir);
	free(f->sums);
	free(f);
}
DEFINE_FREEP(struct moving, moving_free)

static int say_path(const struct moving *f, struct error *err)
{
	if (strcmp(f->path, "."))
		error_prefix(err, "%s", f->path);
	return err->code;
}

/* ---- pieces ---- */

struct piece {
	struct moving *file;
	int in;
	struct sum *sum;
	char *buf;
	size_t size;
	uint64_t *read_usp;
};

static ssize_t read_at(int fd, char *buf, size_t size, uint64_t at)
{
	ssize_t n;

	do {
		n = pread(fd, buf, size, (off_t)at);
	} while (n < 0 && errno == EINTR);
	return n;
}

static int copy_data(struct piece *p, uint64_t from, uint64_t to, struct error *err)
{
	while (from < to) {
		uint64_t before = clock_us();
		size_t size = to - from < p->size ? (size_t)(to - from) : p->size;
		ssize_t n = read_at(p->in, p->buf, size, from);
		int r;

		*p->read_usp += clock_us() - before;
		if (n < 0)
			return error_errno(err, errno, "read");
		if (n == 0)
			return error_set(err, ESTALE, "became shorter while it was read");
		sum_add(p->sum, p->buf, (size_t)n);
		r = fd_pwrite_all(p->file->out, p->buf, (size_t)n, from);
		if (r < 0)
			return error_errno(err, -r, "write");
		from += (uint64_t)n;
		atomic_fetch_add(&p->file->move->read_bytes, (uint64_t)n);
		stage_io_add_progress(&p->file->move->io, (uint64_t)n, 0);
	}
	return 0;
}

/* Finds where the next data begins and ends. Without SEEK_DATA, everything counts as data. */
static void find_data(int in, uint64_t *fromp, uint64_t *endp, uint64_t to)
{
	off_t data = lseek(in, (off_t)*fromp, SEEK_DATA), hole;

	*endp = to;
	if (data < 0) {
		*fromp = errno == ENXIO ? to : *fromp;
		return;
	}
	*fromp = (uint64_t)data < to ? (uint64_t)data : to;
	hole = lseek(in, data, SEEK_HOLE);
	if (hole >= 0 && (uint64_t)hole < to)
		*endp = (uint64_t)hole > *fromp ? (uint64_t)hole : *fromp;
}

static int copy_with_holes(struct piece *p, uint64_t from, uint64_t to, struct error *err)
{
	uint64_t data, end;
	int r = 0;

	for (; from < to && r == 0; from = end) {
		data = from;
		find_data(p->in, &data, &end, to);
		sum_add_zeros(p->sum, data - from);
		r = copy_data(p, data, end, err);
	}
	return r;
}

/* Returns whether the file already has the piece that was recorded. */
static bool is_there(struct piece *p, const struct record_sum *known, uint64_t from, uint64_t to)
{
	char text[SUM_TEXT_SIZE];
	ssize_t n;

	if (!known || !known->text[0])
		return false;
	for (uint64_t at = from; at < to; at += (uint64_t)n) {
		n = read_at(p->file->out, p->buf, to - at < p->size ? (size_t)(to - at) : p->size,
			    at);
		if (n <= 0)
			return false;
		sum_add(p->sum, p->buf, (size_t)n);
	}
	sum_get(p->sum, text);
	if (strcmp(text, known->text))
		return false;
	atomic_fetch_add(&p->file->move->kept_bytes, to - from);
	return true;
}

static int copy_piece(void *arg, int in, uint64_t from, uint64_t to, char *buf, size_t size,
		      uint64_t *read_usp, struct error *err)
{
	_cleanup_(sum_freep) struct sum *sum = NULL;
	struct moving *f = arg;
	struct piece p = { .file = f, .in = in, .buf = buf, .size = size, .read_usp = read_usp };
	size_t i = (size_t)(from / RECORD_PIECE);
	int r;

	if (sum_new(&sum) < 0)
		return error_set(err, ENOMEM, "out of memory");
	p.sum = sum;
	if (f->old && is_there(&p, &f->old->sums[i], from, to)) {
		f->sums[i] = f->old->sums[i];
		return 0;
	}
	sum_begin(sum);
	r = copy_file_is_sparse(&f->st) ? copy_with_holes(&p, from, to, err)
					: copy_data(&p, from, to, err);
	if (r < 0)
		return r;
	sum_get(sum, f->sums[i].text);
	if (f->n_sums == 1)
		return 0;
	/* starts writing to disk now; the result does not matter, because place_sync() writes
	 * everything */
	(void)sync_file_range(f->out, (off_t)from, (off_t)(to - from), SYNC_FILE_RANGE_WRITE);
	return record_add_piece(f->move->record, &f->st, i, &f->sums[i], f->path, err);
}

/* ---- a file ---- */

/* Completes a file that has all its bytes. Errors of writing are taken from close(), because
 * syncfs() reports them only since Linux 5.8. */
static int finish(struct moving *f, struct error *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, f->st.st_mtim };
	struct stat now;
	int r;

	if (fstat(f->in, &now) < 0)
		return error_errno(err, errno, "look at it again");
	if (!copy_file_is_same(&now, &f->st))
		return error_set(err, ESTALE, "changed while it was copied");
	if (fchmod(f->out, (f->st.st_mode & 0777) | 0400) < 0 || futimens(f->out, times) < 0)
		return error_errno(err, errno, "set its mode and times");
	r = copy_file_close(&f->out, err);
	if (r < 0)
		return r;
	atomic_fetch_add(&f->move->files, 1);
	return record_add(f->move->record, 'f', &f->st, f->sums, f->n_sums, f->path, err);
}

static void end_pieces(void *arg, const struct error *failure)
{
	_cleanup_(moving_freep) struct moving *f = arg;
	struct error err = ERROR_INIT;

	if (failure)
		err = *failure;
	else if (!walk_is_over(f->move->walk))
		finish(f, &err);
	if (!err.code)
		return;
	say_path(f, &err);
	walk_fail(f->move->walk, &err);
}

static int copy_small(struct moving *f, struct error *err)
{
	uint64_t size = (uint64_t)f->st.st_size, us = 0;
	_cleanup_(freep) char *buf = size ? buffer_new(size < COPY_SMALL_SIZE ? (size_t)size
									      : COPY_SMALL_SIZE)
					  : NULL;
	int r = 0;

	if (size && !buf)
		return error_set(err, ENOMEM, "out of memory");
	if (size)
		r = copy_piece(f, f->in, 0, size, buf,
			       size < COPY_SMALL_SIZE ? (size_t)size : COPY_SMALL_SIZE, &us, err);
	return r < 0 ? r : finish(f, err);
}

/* Opens the file of an interrupted mover, if the copy can be resumed. If that mover had finished
 * it, it has its final mode, which may forbid writing. Returns the descriptor, or -1. */
static int open_kept(struct moving *f, const struct move_file *file)
{
	const struct record_entry *old = record_find(f->move->old, f->path);
	_cleanup_(fd_closep) int look = -1;
	char name[64];
	struct stat st;
	int fd;

	if (!old || !old->n_sums || !record_entry_is(old, &f->st) || copy_file_is_sparse(&f->st))
		return -1;
	look = openat(file->to, file->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (look < 0 || fstat(look, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    st.st_size != f->st.st_size)
		return -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", look);
	if ((st.st_mode & 0600) != 0600 && chmod(name, 0600) < 0)
		return -1;
	fd = fd_reopen(look, O_RDWR);
	if (fd < 0)
		return -1;
	f->old = old;
	return fd;
}

static int create(struct moving *f, const struct move_file *file, struct error *err)
{
	int r;

	f->out = f->move->resumed ? open_kept(f, file) : -1;
	if (f->out >= 0)
		return 0;
	r = f->move->resumed ? rmtree_at(file->to, file->name, NULL, err) : 0;
	if (r < 0)
		return r;
	/* readable, because its pieces are read back if the copy is resumed */
	f->out = openat(file->to, file->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (f->out < 0)
		return error_errno(err, errno, "create it");
	return ftruncate(f->out, f->st.st_size) < 0 ? error_errno(err, errno, "set its size") : 0;
}

/* ---- files that need no copy ---- */

/* Links the file from the earlier copy. Returns 1 if it is there and the source is unchanged; 0: it
 * must be copied; or an error with err set. A file whose permissions have changed is copied: both
 * names of a link have the same permissions, and jobs may use the earlier copy. */
static int take_earlier(struct move *m, const struct move_file *file, const struct stat *st,
			struct error *err)
{
	static const struct timespec touch[2] = { { .tv_nsec = UTIME_NOW },
						  { .tv_nsec = UTIME_OMIT } };
	const struct record_entry *e = record_find(m->base, file->path);
	struct stat have;

	if (file->from < 0 || !e || e->type != 'f' || !record_entry_is(e, st) ||
	    !record_entry_has_mode(e, st) ||
	    fstatat(file->from, file->from_path, &have, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(have.st_mode) || !record_entry_is(e, &have))
		return 0;
	if (m->resumed && rmtree_at(file->to, file->name, NULL, err) < 0)
		return err->code;
	if (linkat(file->from, file->from_path, file->to, file->name, 0) < 0)
		return 0;
	utimensat(file->to, file->name, touch, AT_SYMLINK_NOFOLLOW);
	atomic_fetch_add(&m->files, 1);
	atomic_fetch_add(&m->linked_bytes, e->size);
	return record_add(m->record, 'f', st, e->sums, e->n_sums, file->path, err) < 0 ? err->code
										       : 1;
}

/* Links a file that is already in the copy under another name. Returns 1 if there is one. Else
 * creates the file, or links it from the earlier copy, and remembers its name for later names. The
 * table is locked between the search and the addition. */
static int take_other_name(struct move *m, const struct move_file *file, struct moving *f,
			   struct error *err)
{
	const char *first;
	int r;

	first = link_table_find_or_lock(m->links, &f->st);
	if (!first) {
		r = take_earlier(m, file, &f->st, err);
		if (r == 0)
			r = create(f, file, err);
		link_table_unlock_and_add(m->links, &f->st, r < 0 ? NULL : file->path);
		return r;
	}
	if (m->resumed && rmtree_at(file->to, file->name, NULL, err) < 0)
		return err->code;
	if (linkat(m->root_fd, first, file->to, file->name, 0) < 0)
		return error_errno(err, errno, "link it to %s", first);
	atomic_fetch_add(&m->files, 1);
	r = record_add(m->record, 'h', &f->st, NULL, 0, file->path, err);
	return r < 0 ? r : 1;
}

static int check_size(struct move *m, const struct stat *st, struct error *err)
{
	uint64_t size = atomic_fetch_add(&m->size, (uint64_t)st->st_size) + (uint64_t)st->st_size;

	if (m->order->max_bytes && size > m->order->max_bytes)
		return error_exit(err, STAGE_EXIT_NO_SPACE, EDQUOT,
				  "is larger than the site's MaxBytes for one dataset");
	return 0;
}

static struct moving *moving_new(struct move *m, const struct move_file *file)
{
	struct moving *f = calloc(1, sizeof(*f) + strlen(file->path) + 1);

	if (!f)
		return NULL;
	f->move = m;
	f->in = file->fd;
	f->out = -1;
	f->dir = file->dir ? walk_dir_get(file->dir) : NULL;
	strcpy(f->path, file->path);
	return f;
}

static int prepare(struct move *m, const struct move_file *file, struct moving *f,
		   struct error *err)
{
	int r;

	if (fstat(f->in, &f->st) < 0)
		return error_errno(err, errno, "look at it");
	if (!S_ISREG(f->st.st_mode))
		return error_set(err, ESTALE, "is no file any more");
	r = check_size(m, &f->st, err);
	if (r < 0)
		return r;
	if (file->dir && f->st.st_nlink > 1)
		return take_other_name(m, file, f, err);
	r = take_earlier(m, file, &f->st, err);
	return r != 0 ? r : create(f, file, err);
}

int move_file(struct move *m, const struct move_file *file, struct error *err)
{
	_cleanup_(moving_freep) struct moving *f = moving_new(m, file);
	int r;

	if (!f) {
		close(file->fd);
		return error_set(err, ENOMEM, "out of memory");
	}
	r = prepare(m, file, f, err);
	if (r != 0)
		return r < 0 ? say_path(f, err) : 0;
	f->n_sums = (size_t)(((uint64_t)f->st.st_size + RECORD_PIECE - 1) / RECORD_PIECE);
	f->sums = calloc(f->n_sums + 1, sizeof(*f->sums));
	if (!f->sums)
		return error_set(err, ENOMEM, "out of memory");
	if (f->n_sums <= 1)
		return copy_small(f, err) < 0 ? say_path(f, err) : 0;
	if (copy_ranges_by(m->walk, f->in, &f->st, copy_piece, end_pieces, f) < 0)
		return error_set(err, ENOMEM, "out of memory");
	f = NULL; /* end_pieces() frees it, or has done so */
	return 0;
}
