/* The directories of a walk, and what its threads share: the queue, the first error, the end. */
#include "daemon/engines/copy/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
		dir = parent; /* its reference to the parent goes too */
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
