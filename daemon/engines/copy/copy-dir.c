/*
 * A directory is made when it is entered, 0700, and gets its mode and times when the last thing
 * below it is done; with include= or a share of a tree it is made when the first thing in it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/util/fd.h"
#include "common/util/page.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/copy-internal.h"
#include "daemon/engines/copy/stage-io.h"

struct copy_dir {
	_Atomic int fd; /* -1: not made yet */
};

static int make_dir(struct copy *c, int parent, const struct walk_dir *dir, int *fdp,
		    struct error *err)
{
	int r = stage_io_charge(c->io, page_get_size(), 1, err);

	if (r < 0)
		return r;
	if (mkdirat(parent, dir->name, 0700) < 0)
		return error_errno(err, errno, "make directory %s", dir->path);
	*fdp = openat(parent, dir->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *fdp < 0 ? error_errno(err, errno, "open %s", dir->path) : 0;
}

/* Gets a directory of the copy, and makes it after its parents if it is missing. The lock must be
 * held. */
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

int copy_get_dir(struct copy *c, struct walk_dir *dir, int *fdp, struct error *err)
{
	struct copy_dir *cd = dir ? dir->user : NULL;
	int r;

	*fdp = dir && *dir->path ? atomic_load(&cd->fd) : c->root;
	if (*fdp >= 0)
		return 0;
	pthread_mutex_lock(&c->lock);
	r = get_made(c, dir, fdp, err);
	pthread_mutex_unlock(&c->lock);
	return r;
}

/* Makes a directory when the walk enters it. Its parent exists already, and no other thread makes
 * the same directory, so no lock is needed. */
static int make_entered(struct copy *c, struct walk_dir *dir, struct copy_dir *cd,
			struct error *err)
{
	struct copy_dir *above = dir->parent ? dir->parent->user : NULL;
	int fd = -1, r;

	if (!*dir->path)
		return 0;
	r = make_dir(c, above && *dir->parent->path ? atomic_load(&above->fd) : c->root, dir, &fd,
		     err);
	if (r == 0)
		atomic_store(&cd->fd, fd);
	return r;
}

static int refuse_itself(const struct walk_dir *dir, struct error *err)
{
	error_set(err, ELOOP, "%s is where the copy is made: it would be copied into itself",
		  dir->path);
	return error_set_hint(
		err, -ELOOP,
		"leave the link that leads there out (exclude=), or name another DEST");
}

int copy_enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct copy *c = arg;
	struct copy_dir *cd;

	/* the walk may follow a link to the directory that contains the copy */
	if (dir->st.st_dev == c->root_st.st_dev && dir->st.st_ino == c->root_st.st_ino)
		return refuse_itself(dir, err);
	cd = malloc(sizeof(*cd));
	if (!cd)
		return error_set(err, ENOMEM, "out of memory");
	atomic_init(&cd->fd, -1);
	dir->user = cd;
	return c->lazy || copy_is_doomed(c) ? 0 : make_entered(c, dir, cd, err);
}

void copy_leave(struct walk *w, struct walk_dir *dir, void *arg)
{
	struct timespec times[2] = { dir->st.st_atim, dir->st.st_mtim };
	struct copy *c = arg;
	struct copy_dir *cd = dir->user;
	struct error err = ERROR_INIT;
	int fd;

	if (!cd)
		return;
	fd = *dir->path ? atomic_load(&cd->fd) : c->root;
	if (copy_recheck(c, dir, fd, &err) < 0)
		walk_fail(w, &err);
	if (fd >= 0 && ((*dir->path && fchmod(fd, copy_file_mode(dir->st.st_mode)) < 0) ||
			futimens(fd, times) < 0)) {
		error_errno(&err, errno, "finish directory %s", dir->path);
		walk_fail(w, &err);
	}
	if (*dir->path)
		fd_closep(&fd);
	free(cd);
}
