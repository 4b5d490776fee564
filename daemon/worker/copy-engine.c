/*
 * The walk finds, this makes. A directory is made when it is entered, 0700, and gets its mode and
 * times when the last thing below it is done; with include= or a share of a tree it is made when
 * the first thing in it is. Small files are copied by the thread that found them, larger ones are
 * work of their own, the largest several works.
 *
 * After the first thing that can't be read nothing more is copied, but the walk goes on for
 * UNREADABLE_MS, opening only, so that the user hears of more than one file at a time.
 */
#include "daemon/worker/copy-engine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "daemon/worker/copy-file.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/filter.h"
#include "daemon/worker/link-table.h"
#include "daemon/worker/source.h"
#include "daemon/worker/walk.h"

#define COPY_OWN_WORK_FROM (1 << 20) /* a file of this size is work of its own */
#define COPY_DIR_CHARGE 4096
#define COPY_MEMBERS_AT_ONCE 32
#define UNREADABLE_MAX 10
#define UNREADABLE_MS 2000

struct copy_dir {
	_Atomic int fd; /* -1: not made yet */
};

struct copy {
	struct ctx *ctx;
	struct source *src;
	int root;
	struct walk *walk;
	struct filter *filter;
	struct link_table *links;
	bool lazy; /* directories come with what is in them */
	_Atomic uint64_t files;
	pthread_mutex_t lock; /* what is below; making of lazy directories */
	uint64_t n_special, n_mounts, n_unreadable;
	char first_special[512], first_mount[512], unreadable[800];
	uint64_t doomed_ms; /* when the first unreadable thing was found; 0: none */
};

/* ---- what is left out ---- */

static void count(struct copy *c, uint64_t *n, char *first, size_t size, const char *path)
{
	pthread_mutex_lock(&c->lock);
	if ((*n)++ == 0)
		snprintf(first, size, "%s", path);
	pthread_mutex_unlock(&c->lock);
}

static bool is_doomed(struct copy *c)
{
	bool doomed;

	pthread_mutex_lock(&c->lock);
	doomed = c->doomed_ms != 0;
	if (doomed &&
	    (c->n_unreadable >= UNREADABLE_MAX || clock_ms() > c->doomed_ms + UNREADABLE_MS))
		walk_stop(c->walk);
	pthread_mutex_unlock(&c->lock);
	return doomed;
}

static int copy_unreadable(struct walk *w, const char *path, int errnum, void *arg,
			   struct error *err)
{
	struct copy *c = arg;
	size_t n;

	pthread_mutex_lock(&c->lock);
	if (!c->doomed_ms)
		c->doomed_ms = clock_ms();
	n = strlen(c->unreadable);
	if (c->n_unreadable++ < UNREADABLE_MAX)
		snprintf(c->unreadable + n, sizeof(c->unreadable) - n, "%s%s", n ? ", " : "",
			 *path ? path : ".");
	pthread_mutex_unlock(&c->lock);
	return 0;
}

static void report(struct copy *c)
{
	if (c->n_special)
		ctx_warn(c->ctx, "%llu sockets, FIFOs or devices were left out (%s)",
			 (unsigned long long)c->n_special, c->first_special);
	if (c->n_mounts)
		ctx_warn(c->ctx, "what is mounted inside of the source was left out (%s)",
			 c->first_mount);
}

/* ---- directories ---- */

static int make_dir(struct copy *c, int parent, const struct walk_dir *dir, int *fdp,
		    struct error *err)
{
	int r = ctx_charge(c->ctx, COPY_DIR_CHARGE, 1, err);

	if (r < 0)
		return r;
	if (mkdirat(parent, dir->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", dir->path);
	*fdp = openat(parent, dir->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *fdp < 0 ? error_errno(err, errno, "open %s", dir->path) : 0;
}

/* The staged directory, made if need be, those above first. lock is held. */
static int get_made(struct copy *c, struct walk_dir *dir, int *fdp, struct error *err)
{
	struct copy_dir *cd = dir->user;
	int parent = c->root, fd = -1, r = 0;

	if (!*dir->path) {
		*fdp = c->root;
		return 0;
	}
	*fdp = atomic_load(&cd->fd);
	if (*fdp >= 0)
		return 0;
	if (dir->parent)
		r = get_made(c, dir->parent, &parent, err);
	if (r == 0)
		r = make_dir(c, parent, dir, &fd, err);
	if (r < 0)
		return r;
	atomic_store(&cd->fd, fd);
	*fdp = fd;
	return 0;
}

static int get_dir(struct copy *c, struct walk_dir *dir, int *fdp, struct error *err)
{
	struct copy_dir *cd = dir->user;
	int r;

	*fdp = *dir->path ? atomic_load(&cd->fd) : c->root;
	if (*fdp >= 0)
		return 0;
	pthread_mutex_lock(&c->lock);
	r = get_made(c, dir, fdp, err);
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int copy_enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct copy *c = arg;
	struct copy_dir *cd = malloc(sizeof(*cd));
	int fd;

	if (!cd)
		return error_set(err, ENOMEM, "out of memory");
	atomic_init(&cd->fd, -1);
	dir->user = cd;
	return c->lazy || is_doomed(c) ? 0 : get_dir(c, dir, &fd, err);
}

static void copy_leave(struct walk *w, struct walk_dir *dir, void *arg)
{
	struct timespec times[2] = { dir->st.st_atim, dir->st.st_mtim };
	struct copy *c = arg;
	struct copy_dir *cd = dir->user;
	struct error err = ERROR_INIT;
	int fd;

	if (!cd)
		return;
	fd = *dir->path ? atomic_load(&cd->fd) : c->root;
	if (fd >= 0 &&
	    ((*dir->path && fchmod(fd, dir->st.st_mode & 0777) < 0) || futimens(fd, times) < 0)) {
		error_errno(&err, errno, "finish directory %s", dir->path);
		walk_fail(w, &err);
	}
	if (*dir->path)
		fd_closep(&fd);
	free(cd);
}

static int copy_mount_point(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct copy *c = arg;

	count(c, &c->n_mounts, c->first_mount, sizeof(c->first_mount), dir->path);
	return 0;
}

/* ---- files ---- */

/* A file that is being copied, by one or several works; the last one finishes it. */
struct copying {
	struct walk_dir *dir; /* NULL: of a set, straight in root */
	int in, out;
	struct stat st;
	_Atomic unsigned n_refs;
	char name[];
};

struct range_work {
	struct work work;
	struct copy *copy;
	struct copying *file;
	uint64_t from, to;
};

static void prefix_path(const struct copying *f, struct error *err)
{
	char path[WALK_PATH_SIZE];

	error_prefix(err, "%s", f->dir ? walk_path(f->dir, f->name, path) : f->name);
}

static struct copying *copying_new(struct walk_dir *dir, const char *name, int in,
				   const struct stat *st)
{
	struct copying *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f)
		return NULL;
	f->dir = dir ? walk_dir_get(dir) : NULL;
	f->in = in;
	f->out = -1;
	f->st = *st;
	atomic_init(&f->n_refs, 1);
	strcpy(f->name, name);
	return f;
}

static void copying_put(struct copy *c, struct copying *f)
{
	struct error err = ERROR_INIT;

	if (atomic_fetch_sub(&f->n_refs, 1) != 1)
		return;
	if (!walk_is_over(c->walk) && f->out >= 0) {
		if (copy_file_finish(f->in, f->out, &f->st, &err) < 0) {
			prefix_path(f, &err);
			walk_fail(c->walk, &err);
		}
		atomic_fetch_add(&c->files, 1);
		ctx_add_progress(c->ctx, 0, 1);
	}
	fd_closep(&f->in);
	fd_closep(&f->out);
	walk_dir_put(c->walk, f->dir);
	free(f);
}

static void copy_part(struct copy *c, struct copying *f, uint64_t from, uint64_t to)
{
	struct error err = ERROR_INIT;

	if (walk_is_over(c->walk))
		return;
	if (copy_file_range_data(c->ctx, f->in, f->out, from, to, copy_file_is_sparse(&f->st), NULL,
				 &err) < 0) {
		prefix_path(f, &err);
		walk_fail(c->walk, &err);
	}
}

static void run_range(struct work *work, void *arg)
{
	struct range_work *r = (struct range_work *)work;

	copy_part(r->copy, r->file, r->from, r->to);
	copying_put(r->copy, r->file);
	free(r);
}

/* A work for each range but the first, which is the caller's. */
static int push_ranges(struct copy *c, struct copying *f, struct error *err)
{
	uint64_t size = (uint64_t)f->st.st_size;
	struct range_work *r;

	for (uint64_t from = COPY_RANGE_SIZE; from < size; from += COPY_RANGE_SIZE) {
		r = calloc(1, sizeof(*r));
		if (!r)
			return error_set(err, ENOMEM, "out of memory");
		r->work.run = run_range;
		r->copy = c;
		r->file = f;
		r->from = from;
		r->to = size - from < COPY_RANGE_SIZE ? size : from + COPY_RANGE_SIZE;
		atomic_fetch_add(&f->n_refs, 1);
		walk_push(c->walk, &r->work);
	}
	return 0;
}

/* A hard link to what is there already: *linkedp. Else f->out is made, and known for later links.
 */
static int create_linked(struct copy *c, struct copying *f, int dirfd, bool *linkedp,
			 struct error *err)
{
	char path[WALK_PATH_SIZE];
	const char *first;
	int r;

	if (f->dir)
		walk_path(f->dir, f->name, path);
	else
		snprintf(path, sizeof(path), "%s", f->name);
	link_table_get(c->links, &f->st, &first);
	if (!first) {
		r = copy_file_create(dirfd, f->name, &f->st, &f->out, err);
		link_table_put(c->links, &f->st, r == 0 ? path : NULL);
		return r;
	}
	*linkedp = true;
	if (linkat(c->root, first, dirfd, f->name, 0) < 0)
		return error_errno(err, errno, "link it to %s", first);
	return 0;
}

static int create_file(struct copy *c, struct copying *f, bool *linkedp, struct error *err)
{
	int dirfd = c->root, r;

	r = f->dir ? get_dir(c, f->dir, &dirfd, err) : 0;
	if (r < 0)
		return r;
	*linkedp = false;
	if (f->st.st_nlink > 1)
		r = create_linked(c, f, dirfd, linkedp, err);
	else
		r = copy_file_create(dirfd, f->name, &f->st, &f->out, err);
	if (r < 0)
		return r;
	return ctx_charge(c->ctx, *linkedp ? 0 : copy_file_charge(&f->st), 1, err);
}

/* Consumes f, which is open for reading. */
static void copy_opened(struct copy *c, struct copying *f)
{
	uint64_t size = (uint64_t)f->st.st_size;
	struct error err = ERROR_INIT;
	bool linked = false;
	int r;

	if (!is_doomed(c) && !walk_is_over(c->walk)) {
		r = create_file(c, f, &linked, &err);
		if (r == 0 && !linked && size > COPY_RANGE_SIZE)
			r = push_ranges(c, f, &err);
		if (r < 0) {
			prefix_path(f, &err);
			walk_fail(c->walk, &err);
		} else if (!linked) {
			copy_part(c, f, 0, size < COPY_RANGE_SIZE ? size : COPY_RANGE_SIZE);
		} else {
			atomic_fetch_add(&c->files, 1);
			ctx_add_progress(c->ctx, size, 1);
		}
	}
	copying_put(c, f);
}

/* Opened without waiting for a FIFO that took the file's place. */
static int copy_named(struct copy *c, struct walk_dir *dir, const char *name, struct error *err)
{
	char path[WALK_PATH_SIZE];
	_cleanup_(fd_closep) int fd = -1;
	struct copying *f;
	struct stat st;

	fd = openat(dir->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return copy_unreadable(c->walk, walk_path(dir, name, path), errno, c, err);
	if (fd < 0 && (errno == ENOENT || errno == ELOOP))
		return error_set(err, ESTALE, "%s vanished while the directory was copied",
				 walk_path(dir, name, path));
	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open %s", walk_path(dir, name, path));
	if (!S_ISREG(st.st_mode))
		return error_set(err, ESTALE, "%s is no file any more", walk_path(dir, name, path));
	f = copying_new(dir, name, fd, &st);
	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	fd = -1;
	copy_opened(c, f);
	return 0;
}

struct file_work {
	struct work work;
	struct copy *copy;
	struct walk_dir *dir;
	char name[];
};

static void run_file(struct work *work, void *arg)
{
	struct file_work *f = (struct file_work *)work;
	struct error err = ERROR_INIT;

	if (!walk_is_over(f->copy->walk) && copy_named(f->copy, f->dir, f->name, &err) < 0)
		walk_fail(f->copy->walk, &err);
	walk_dir_put(f->copy->walk, f->dir);
	free(f);
}

static int push_file(struct copy *c, struct walk_dir *dir, const char *name, struct error *err)
{
	struct file_work *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	f->work.run = run_file;
	f->copy = c;
	f->dir = walk_dir_get(dir);
	strcpy(f->name, name);
	walk_push(c->walk, &f->work);
	return 0;
}

static int copy_symlink(struct copy *c, struct walk_dir *dir, const char *name,
			const struct stat *st, struct error *err)
{
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	char to[4097], path[WALK_PATH_SIZE];
	ssize_t n;
	int dirfd, r;

	n = readlinkat(dir->fd, name, to, sizeof(to));
	if (n < 0 || (size_t)n >= sizeof(to))
		return error_errno(err, n < 0 ? errno : ENAMETOOLONG, "read link %s",
				   walk_path(dir, name, path));
	to[n] = '\0';
	if (is_doomed(c))
		return 0;
	r = get_dir(c, dir, &dirfd, err);
	if (r == 0)
		r = ctx_charge(c->ctx, COPY_DIR_CHARGE, 1, err);
	if (r < 0)
		return r;
	if (symlinkat(to, dirfd, name) < 0)
		return error_errno(err, errno, "make link %s", walk_path(dir, name, path));
	utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW); /* not all file systems can */
	atomic_fetch_add(&c->files, 1);
	ctx_add_progress(c->ctx, 0, 1);
	return 0;
}

static int copy_entry(struct walk *w, struct walk_dir *dir, const char *name, const struct stat *st,
		      void *arg, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct copy *c = arg;

	if (c->src->taken && !source_takes(c->src, walk_path(dir, name, path)))
		return 0;
	if (S_ISLNK(st->st_mode))
		return copy_symlink(c, dir, name, st, err);
	if (S_ISREG(st->st_mode))
		return st->st_size >= COPY_OWN_WORK_FROM ? push_file(c, dir, name, err)
							 : copy_named(c, dir, name, err);
	count(c, &c->n_special, c->first_special, sizeof(c->first_special),
	      walk_path(dir, name, path));
	return 0;
}

/* ---- members of a set ---- */

struct member_work {
	struct work work;
	struct copy *copy;
	size_t from, to;
};

static int copy_member(struct copy *c, size_t i, struct error *err)
{
	const struct source_member *m = &c->src->members[i];
	_cleanup_(fd_closep) int fd = -1;
	struct copying *f;
	struct stat st;
	int r;

	if (filter_prunes(c->filter, m->name))
		return 0;
	r = source_open_member(c->ctx, c->src, i, &fd, &st, err);
	if (r == -EACCES)
		return copy_unreadable(c->walk, m->path, EACCES, c, err);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return walk_add_root(c->walk, steal_fd(&fd), m->name, err);
	if (!filter_takes(c->filter, m->name))
		return 0;
	f = copying_new(NULL, m->name, fd, &st);
	if (!f)
		return error_set(err, ENOMEM, "out of memory");
	fd = -1;
	copy_opened(c, f);
	return 0;
}

static void run_members(struct work *work, void *arg)
{
	struct member_work *m = (struct member_work *)work;
	struct error err = ERROR_INIT;

	for (size_t i = m->from; i < m->to && !walk_is_over(m->copy->walk); i++) {
		if (copy_member(m->copy, i, &err) < 0)
			walk_fail(m->copy->walk, &err);
	}
	free(m);
}

static int push_members(struct copy *c, struct error *err)
{
	size_t n = c->src->n_members;

	for (size_t i = 0; i < n; i += COPY_MEMBERS_AT_ONCE) {
		struct member_work *m = calloc(1, sizeof(*m));

		if (!m)
			return error_set(err, ENOMEM, "out of memory");
		m->work.run = run_members;
		m->copy = c;
		m->from = i;
		m->to = n - i < COPY_MEMBERS_AT_ONCE ? n : i + COPY_MEMBERS_AT_ONCE;
		walk_push(c->walk, &m->work);
	}
	return 0;
}

/* ---- the whole ---- */

static const struct walk_ops ops = {
	.enter = copy_enter,
	.entry = copy_entry,
	.leave = copy_leave,
	.unreadable = copy_unreadable,
	.mount_point = copy_mount_point,
};

static int push_source(struct copy *c, struct error *err)
{
	int fd;

	if (c->src->kind == SOURCE_SET)
		return push_members(c, err);
	fd = openat(c->src->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %s", c->src->path);
	return walk_add_root(c->walk, fd, "", err);
}

static int copy_all(struct copy *c, struct error *err)
{
	int r;

	r = filter_new(&c->filter, c->ctx->ds, err);
	if (r < 0)
		return r;
	if (link_table_new(&c->links) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = walk_new(&c->walk, c->ctx, c->filter, &ops, c, err);
	if (r < 0)
		return r;
	c->lazy = filter_has_includes(c->filter) || c->src->taken;
	r = push_source(c, err);
	if (r < 0)
		walk_stop(c->walk); /* what is queued is freed by running through it */
	if (r < 0)
		walk_run(c->walk, NULL);
	else
		r = walk_run(c->walk, err);
	if (r == 0 && c->n_unreadable)
		r = error_set(err, EACCES, "may not be read: %s%s", c->unreadable,
			      c->n_unreadable > UNREADABLE_MAX ? " and more" : "");
	return r;
}

int copy_tree(struct ctx *ctx, struct source *src, int root, struct copy_result *result,
	      struct error *err)
{
	struct copy c = { .ctx = ctx, .src = src, .root = root };
	int r;

	pthread_mutex_init(&c.lock, NULL);
	r = copy_all(&c, err);
	if (r == 0)
		report(&c);
	result->files = atomic_load(&c.files);
	walk_free(c.walk);
	link_table_free(c.links);
	filter_free(c.filter);
	pthread_mutex_destroy(&c.lock);
	return r;
}
