/*
 * A small file takes eight calls: open, read, stat, close, and create with its mode, write, times,
 * close. After it was read, its status is compared with the one that the walk saw, which may be
 * some time ago. If they differ, the file is copied in the careful way, which compares its status
 * directly before and after. Big files, files with holes and files with several links are always
 * copied in this way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/buffer.h"
#include "common/util/clock.h"
#include "common/util/fd.h"
#include "common/util/page.h"
#include "common/util/path.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/copy-internal.h"
#include "daemon/engines/copy/copy-ranges.h"
#include "daemon/engines/copy/link-table.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk-internal.h"

/* Returns this thread's buffer of COPY_SMALL_SIZE bytes, lent. NULL: no memory. */
static char *get_buffer(struct copy *c)
{
	char *buf = pthread_getspecific(c->buffer);

	if (!buf) {
		buf = buffer_new(COPY_SMALL_SIZE);
		pthread_setspecific(c->buffer, buf);
	}
	return buf;
}

static void count_done(struct copy *c, uint64_t bytes)
{
	atomic_fetch_add_explicit(&c->files, 1, memory_order_relaxed);
	stage_io_add_progress(c->io, bytes, 1);
}

/* Counts another name of a file that was copied already, as copy-count.c has counted it. */
static void count_linked(struct copy *c, const struct stat *st)
{
	uint64_t bytes = copy_file_is_sparse(st) ? copy_file_charge(st) : (uint64_t)st->st_size;

	atomic_fetch_add_explicit(&c->files, 1, memory_order_relaxed);
	stage_io_add_unread(c->io, bytes, 1);
}

/* ---- the careful way ---- */

/* A file that is being copied, perhaps by several threads; the last one finishes it. */
struct copying {
	struct copy *copy;
	struct walk_dir *dir; /* NULL: a member of a set, directly in root */
	int in, out;
	struct stat st;
	char name[];
};

static struct copying *copying_new(struct copy *c, struct walk_dir *dir, const char *name, int in,
				   const struct stat *st)
{
	struct copying *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f)
		return NULL;
	f->copy = c;
	f->dir = dir ? walk_dir_get(dir) : NULL;
	f->in = in;
	f->out = -1;
	f->st = *st;
	strcpy(f->name, name);
	return f;
}

static void copying_free(struct copying *f)
{
	if (!f)
		return;
	fd_closep(&f->in);
	fd_closep(&f->out);
	walk_dir_put(f->copy->walk, f->dir);
	free(f);
}
DEFINE_FREEP(struct copying, copying_free)

static const char *get_path(const struct copying *f, char buf[static WALK_PATH_SIZE])
{
	return f->dir ? walk_path(f->dir, f->name, buf) : f->name;
}

static int prefix_path(const struct copying *f, struct error *err)
{
	char path[WALK_PATH_SIZE];

	error_prefix(err, "%s", get_path(f, path));
	return err->code;
}

/* Finishes a file after all its bytes were copied. */
static int finish(struct copying *f, struct error *err)
{
	int r = copy_file_finish(f->in, f->out, &f->st, err);

	if (r < 0)
		return prefix_path(f, err);
	count_done(f->copy, 0);
	return 0;
}

static void end_ranges(void *arg, const struct error *failure)
{
	_cleanup_(copying_freep) struct copying *f = arg;
	struct walk *w = f->copy->walk;
	struct error err = ERROR_INIT;

	if (failure) {
		err = *failure;
		prefix_path(f, &err);
		walk_fail(w, &err);
	} else if (!walk_is_over(w) && finish(f, &err) < 0) {
		walk_fail(w, &err);
	}
}

/* Makes a hard link if the file was copied already, and sets *linkedp. Otherwise creates f->out,
 * and records it for later links. */
static int create_linked(struct copy *c, struct copying *f, int dirfd, bool *linkedp,
			 struct error *err)
{
	char path[WALK_PATH_SIZE];
	const char *first;
	int r;

	first = link_table_find_or_lock(c->links, &f->st);
	if (!first) {
		r = copy_file_create(dirfd, f->name, &f->st, &f->out, err);
		link_table_unlock_and_add(c->links, &f->st, r == 0 ? get_path(f, path) : NULL);
		return r;
	}
	*linkedp = true;
	if (linkat(c->root, first, dirfd, f->name, 0) < 0)
		return error_errno(err, errno, "link it to %s", first);
	return 0;
}

static int create_file(struct copy *c, struct copying *f, bool *linkedp, struct error *err)
{
	int dirfd, r;

	r = copy_get_dir(c, f->dir, &dirfd, err);
	if (r < 0)
		return r;
	*linkedp = false;
	if (f->st.st_nlink > 1)
		r = create_linked(c, f, dirfd, linkedp, err);
	else
		r = copy_file_create(dirfd, f->name, &f->st, &f->out, err);
	if (r < 0)
		return r;
	return stage_io_charge(c->io, *linkedp ? 0 : copy_file_charge(&f->st), 1, err);
}

static int copy_whole(struct copy *c, struct copying *f, struct error *err)
{
	char *buf = get_buffer(c);
	uint64_t us;
	int r;

	if (!buf)
		return error_set(err, ENOMEM, "out of memory");
	r = copy_file_part(c->io, f->in, f->out, 0, (uint64_t)f->st.st_size,
			   copy_file_is_sparse(&f->st), buf, COPY_SMALL_SIZE, &us, err);
	return r < 0 ? prefix_path(f, err) : finish(f, err);
}

int copy_opened(struct copy *c, struct walk_dir *dir, const char *name, int fd,
		const struct stat *st, struct error *err)
{
	_cleanup_(copying_freep) struct copying *f = copying_new(c, dir, name, fd, st);
	bool linked = false;
	int r;

	if (!f) {
		close(fd);
		return error_set(err, ENOMEM, "out of memory");
	}
	if (copy_is_doomed(c) || walk_is_over(c->walk))
		return 0;
	copy_file_look_for_holes(fd, &f->st);
	r = create_file(c, f, &linked, err);
	if (r < 0)
		return prefix_path(f, err);
	if (linked)
		count_linked(c, st);
	else if ((uint64_t)st->st_size <= COPY_RANGE_SIZE)
		return copy_whole(c, f, err);
	else if (copy_ranges(c->walk, c->io, f->in, f->out, &f->st, end_ranges, f) == 0)
		f = NULL; /* end_ranges() frees f, or has done so already */
	else
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

/* ---- small files ---- */

static int make_small(struct copy *c, struct walk_dir *dir, const char *name, const char *buf,
		      const struct stat *st, struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	_cleanup_(fd_closep) int out = -1;
	int dirfd, r;

	r = copy_get_dir(c, dir, &dirfd, err);
	if (r == 0)
		r = stage_io_charge(c->io, copy_file_charge(st), 1, err);
	if (r < 0)
		return r;
	out = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		     copy_file_mode(st->st_mode));
	if (out < 0)
		return error_errno(err, errno, "create %s", name);
	r = copy_file_write(out, buf, (size_t)st->st_size, err);
	if (r == 0 && futimens(out, times) < 0)
		r = error_errno(err, errno, "set its time");
	if (r == 0)
		r = copy_file_close(&out, err);
	if (r == 0)
		count_done(c, (uint64_t)st->st_size);
	return r;
}

/* Reads a small file and sets *st to its status after that. Returns 0, or 1: it must be copied in
 * the careful way. */
static int read_small(int fd, char *buf, const struct stat *seen, struct stat *st)
{
	size_t size = (size_t)seen->st_size;

	if (size > 0 && read(fd, buf, size) != (ssize_t)size)
		return 1;
	return copy_file_look(fd, st) < 0 || !S_ISREG(st->st_mode) || !copy_file_is_same(seen, st);
}

static bool is_small(const struct stat *st)
{
	return st->st_size <= COPY_SMALL_SIZE && st->st_nlink == 1 && !copy_file_is_sparse(st);
}

/* ---- entries of a directory ---- */

/* Opens a file. Does not wait if a FIFO has replaced the file. Returns 0, -errno, or 1: it cannot
 * be read, and this was recorded. */
static int open_file(struct copy *c, struct walk_dir *dir, const char *name, int *fdp,
		     struct error *err)
{
	char path[WALK_PATH_SIZE];
	int r;

	*fdp = openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (*fdp >= 0) {
		/* reads wait for a file that is on tape or locked by another node */
		(void)fd_set_nonblock(*fdp, false);
		return 0;
	}
	r = errno;
	walk_path(dir, name, path);
	if (r == EACCES || r == EPERM) {
		copy_unreadable(c->walk, path, r, c, err);
		return 1;
	}
	if (r == ENOENT || r == ELOOP)
		return error_set(err, ESTALE, "%s vanished while the directory was copied", path);
	return error_errno(err, r, "open %s", path);
}

static int open_again(const struct walk_entry *e, int *fdp, struct error *err)
{
	*fdp = fcntl(e->fd, F_DUPFD_CLOEXEC, 3);
	return *fdp < 0 ? error_errno(err, errno, "open %s", e->name) : 0;
}

int copy_follow(struct walk *w, struct walk_dir *dir, const char *name, int *fdp, struct stat *st,
		void *arg, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct copy *c = arg;

	walk_path(dir, name, path);
	return c->src->ops->open_link(c->src->arg, walk_root(dir)->fd, dir->fd, name, path, fdp, st,
				      err);
}

static int copy_carefully(struct copy *c, struct walk_dir *dir, const char *name, int fd,
			  struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct stat st;
	int r = 0;

	if (fstat(fd, &st) < 0)
		r = error_errno(err, errno, "open %s", walk_path(dir, name, path));
	else if (!S_ISREG(st.st_mode))
		r = error_set(err, ESTALE, "%s is no file any more", walk_path(dir, name, path));
	if (r == 0)
		return copy_opened(c, dir, name, fd, &st, err);
	close(fd);
	return r;
}

/* Copies a small file. Returns 0, -errno, or 1: it must be copied in the careful way. */
static int copy_small(struct copy *c, struct walk_dir *dir, const struct walk_entry *e, int fd,
		      struct error *err)
{
	char *buf = is_small(&e->st) ? get_buffer(c) : NULL, path[WALK_PATH_SIZE];
	struct stat st;
	int r;

	if (!buf || read_small(fd, buf, &e->st, &st) != 0)
		return 1;
	if (copy_is_doomed(c))
		return 0;
	st.st_blocks = e->st.st_blocks;
	r = make_small(c, dir, e->name, buf, &st, err);
	if (r < 0)
		error_prefix(err, "%s", walk_path(dir, e->name, path));
	return r;
}

static int copy_file(struct copy *c, struct walk_dir *dir, const struct walk_entry *e,
		     struct error *err)
{
	bool measure = walk_should_measure(c->walk);
	uint64_t before = measure ? clock_us() : 0;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	r = e->followed ? open_again(e, &fd, err) : open_file(c, dir, e->name, &fd, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (measure)
		walk_note_wait(c->walk, clock_us() - before, 1);
	r = copy_small(c, dir, e, fd, err);
	return r <= 0 ? r : copy_carefully(c, dir, e->name, steal_fd(&fd), err);
}

/* Copies a small file whose content an earlier walk has kept in memory. */
static int copy_kept(struct copy *c, struct walk_dir *dir, const struct walk_entry *e,
		     struct error *err)
{
	char path[WALK_PATH_SIZE];
	int r;

	if (copy_is_doomed(c))
		return 0;
	r = make_small(c, dir, e->name, e->data, &e->st, err);
	if (r < 0)
		error_prefix(err, "%s", walk_path(dir, e->name, path));
	return r;
}

static int copy_symlink(struct copy *c, struct walk_dir *dir, const struct walk_entry *e,
			struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, e->st.st_mtim };
	const char *name = e->name;
	char to[4097], path[WALK_PATH_SIZE];
	ssize_t n;
	int dirfd, r;

	n = readlinkat(dir->fd, name, to, sizeof(to));
	if (n < 0 || (size_t)n >= sizeof(to))
		return error_errno(err, n < 0 ? errno : ENAMETOOLONG, "read link %s",
				   walk_path(dir, name, path));
	to[n] = '\0';
	if (path_leads_out(dir->path, to))
		copy_count_link_out(c, walk_path(dir, name, path), to);
	if (copy_is_doomed(c))
		return 0;
	r = copy_get_dir(c, dir, &dirfd, err);
	if (r == 0)
		r = stage_io_charge(c->io, page_get_size(), 1, err);
	if (r < 0)
		return r;
	if (symlinkat(to, dirfd, name) < 0)
		return error_errno(err, errno, "make link %s", walk_path(dir, name, path));
	/* some file systems do not support this */
	utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW);
	count_done(c, 0);
	return 0;
}

int copy_entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
	       struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct copy *c = arg;

	if (c->src->is_part && !c->src->ops->takes(c->src->arg, walk_path(dir, e->name, path)))
		return 0;
	if (S_ISLNK(e->st.st_mode))
		return copy_symlink(c, dir, e, err);
	if (S_ISREG(e->st.st_mode))
		return e->data ? copy_kept(c, dir, e, err) : copy_file(c, dir, e, err);
	copy_count_special(c, walk_path(dir, e->name, path));
	return 0;
}
