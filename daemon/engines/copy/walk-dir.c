/* The directories of a walk, and the data that its threads share: the queue, the first error, the
 * end. */
#include "daemon/engines/copy/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/engines/copy/walk-kept.h"

int walk_out_of_memory(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

void walk_stop(struct walk *w)
{
	atomic_store(&w->over, true);
}

void walk_fail(struct walk *w, const struct error *err)
{
	pthread_mutex_lock(&w->lock);
	if (!w->error.code)
		w->error = *err;
	pthread_mutex_unlock(&w->lock);
	walk_stop(w);
}

bool walk_is_over(const struct walk *w)
{
	return atomic_load_explicit(&w->over, memory_order_relaxed) || stage_io_is_cancelled(w->io);
}

void walk_push(struct walk *w, struct work *work)
{
	workq_push(w->q, work);
}

char *walk_path(const struct walk_dir *dir, const char *name, char buf[static WALK_PATH_SIZE])
{
	snprintf(buf, WALK_PATH_SIZE, "%s%s%s", dir->path, *dir->path ? "/" : "", name);
	return buf;
}

const struct walk_dir *walk_root(const struct walk_dir *dir)
{
	while (dir->parent)
		dir = dir->parent;
	return dir;
}

int walk_report_unreadable(struct walk *w, const char *path, int errnum, struct error *err)
{
	if (errnum == ENOENT)
		return error_set(err, ESTALE, "%s vanished while the directory was read", path);
	if (errnum != EACCES && errnum != EPERM)
		return error_errno(err, errnum, "open %s", path);
	return w->ops->unreadable ? w->ops->unreadable(w, path, errnum, w->arg, err) : 0;
}

struct walk_dir *walk_dir_get(struct walk_dir *dir)
{
	atomic_fetch_add(&dir->n_refs, 1);
	return dir;
}

void walk_dir_put(struct walk *w, struct walk_dir *dir)
{
	while (dir && atomic_fetch_sub(&dir->n_refs, 1) == 1) {
		struct walk_dir *parent = dir->parent;

		if (w->ops->leave)
			w->ops->leave(w, dir, w->arg);
		if (w->keeping && !walk_is_over(w))
			walk_kept_complete(dir->kept);
		fd_closep(&dir->fd);
		free(dir->path);
		free(dir);
		dir = parent; /* this drops its reference to the parent, too */
	}
}

struct walk_dir *walk_dir_new(struct walk_dir *parent, const char *name, int fd)
{
	struct walk_dir *dir = calloc(1, sizeof(*dir));
	char path[WALK_PATH_SIZE];
	const char *slash;

	if (!dir || fstat(fd, &dir->st) < 0 ||
	    !(dir->path = strdup(parent ? walk_path(parent, name, path) : name))) {
		free(dir);
		close(fd);
		return NULL;
	}
	slash = strrchr(dir->path, '/');
	dir->name = slash ? slash + 1 : dir->path;
	dir->parent = parent;
	dir->depth = parent ? parent->depth + 1 : 0;
	dir->fd = fd;
	atomic_store(&dir->n_refs, 1);
	return dir;
}

/* Returns true if dir is a mount point. Bind mounts have the device of their parent, so the kernel
 * is asked (from Linux 5.8 on). On older kernels, the devices are compared. dir->fd is on the
 * mount, if there is one. */
static bool is_mount_point(const struct walk_dir *dir)
{
	struct statx sx;

	if (statx(dir->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &sx) == 0 &&
	    (sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT))
		return sx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return dir->st.st_dev != dir->parent->st.st_dev;
}

/* Fails if a link leads to one of its parent directories: following it would never end. */
static int check_way(const struct walk *w, const struct walk_dir *dir, const char *name,
		     const struct stat *st, struct error *err)
{
	const bool can_exclude = w->io && w->io->ds; /* a mover copies all */
	char path[WALK_PATH_SIZE];

	walk_path(dir, name, path);
	if (!S_ISDIR(st->st_mode))
		return error_set(err, ESTALE, "%s leads to no directory any more", path);
	for (; dir; dir = dir->parent) {
		if (dir->st.st_dev != st->st_dev || dir->st.st_ino != st->st_ino)
			continue;
		error_set(err, ELOOP,
			  "%s is a link to a directory that contains it: following it never ends",
			  path);
		return error_set_hint(err, -ELOOP, "%s, or keep the links (links=keep)",
				      can_exclude ? "leave it out (exclude=)" : "remove it");
	}
	return 0;
}

static int open_followed(struct walk *w, struct walk_dir *parent, const char *name, int *fdp,
			 struct error *err)
{
	struct stat st;
	int r = w->ops->follow(w, parent, name, fdp, &st, w->arg, err);

	if (r < 0)
		return r;
	r = check_way(w, parent, name, &st, err);
	if (r < 0)
		close(*fdp);
	return r;
}

int walk_dir_open(struct walk *w, struct dir_work *d, struct error *err)
{
	char path[WALK_PATH_SIZE];
	int fd, r;

	if (d->followed) {
		r = open_followed(w, d->parent, d->name, &fd, err);
		if (r < 0)
			return r;
	} else {
		fd = openat(d->parent->fd, d->name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		return walk_report_unreadable(w, walk_path(d->parent, d->name, path), errno, err);
	d->dir = walk_dir_new(d->parent, d->name, fd);
	if (!d->dir)
		return walk_out_of_memory(err);
	d->parent = NULL;
	return 0;
}

int walk_dir_enter(struct walk *w, struct dir_work *d, struct error *err)
{
	struct walk_dir *dir = d->dir;
	int r = w->ops->enter ? w->ops->enter(w, dir, w->arg, err) : 0;

	d->entered = true;
	if (r < 0)
		return r;
	if (dir->parent && !d->followed && is_mount_point(dir)) {
		r = w->ops->mount_point ? w->ops->mount_point(w, dir, w->arg, err) : 0;
		return r < 0 ? r : 1;
	}
	if (w->keeping)
		walk_kept_begin(d->kept, &dir->st);
	if (w->keeping || walk_kept_is_good(d->kept, &dir->st))
		dir->kept = d->kept;
	return 0;
}
