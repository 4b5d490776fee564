/*
 * Makes files and links by name in a directory that tree-dirs.c holds open. EEXIST shows that the
 * name was made before.
 */
#include "daemon/engines/copy/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/dataset.h"
#include "common/util/error.h"
#include "common/util/page.h"
#include "common/util/path.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/tree-dirs.h"

#define TREE_TRUNCATE_FROM (1u << 20)

struct tree {
	struct stage_io *io;
	struct tree_dirs *dirs;
	_Atomic uint64_t n_made, n_replaced;
};

int tree_new(struct tree **tp, int root, struct stage_io *io, struct error *err)
{
	struct tree *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return error_set(err, ENOMEM, "out of memory");
	t->io = io;
	r = tree_dirs_new(&t->dirs, root, io, err);
	if (r < 0)
		free(t);
	else
		*tp = t;
	return r;
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	tree_dirs_free(t->dirs);
	free(t);
}

void tree_set_settle(struct tree *t, tree_settle_fn settle, void *arg)
{
	tree_dirs_set_settle(t->dirs, settle, arg);
}

static int charge(struct tree *t, uint64_t bytes, uint64_t files, struct error *err)
{
	return stage_io_charge(t->io, bytes, files, err);
}

int tree_add_dir(struct tree *t, const char *path, const struct tree_meta *meta, struct error *err)
{
	struct tree_dir *d;
	int r;

	r = tree_dirs_get(t->dirs, path, strlen(path), true, &d, err);
	if (r < 0)
		return r;
	tree_dir_set_meta(d, meta);
	tree_dir_unpin(d);
	return 0;
}

/* ---- places ---- */

/* Returns the size of the parent's path; 0: the top directory. */
static size_t parent_size(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static int refuse_dir(const char *path, struct error *err)
{
	return error_set(err, EISDIR,
			 "%s is a directory in the archive, and something else in another place of "
			 "it",
			 path);
}

int tree_refuse_top(struct error *err)
{
	return error_set(err, EINVAL,
			 "a member that is no directory has the name of the top of the archive");
}

static int get_place(struct tree *t, const char *path, struct tree_place *place, struct error *err)
{
	if (!*path)
		return tree_refuse_top(err);
	if (tree_dirs_has(t->dirs, path))
		return refuse_dir(path, err);
	return tree_dirs_get(t->dirs, path, parent_size(path), true, &place->dir, err);
}

/* Gets a place and charges bytes for it. */
static int buy_place(struct tree *t, const char *path, uint64_t bytes, struct tree_place *place,
		     struct error *err)
{
	struct tree_place got;
	int r = get_place(t, path, &got, err);

	if (r < 0)
		return r;
	r = charge(t, bytes, 1, err);
	if (r < 0)
		tree_put_place(&got);
	else
		*place = got;
	return r;
}

int tree_get_file_place(struct tree *t, const char *path, uint64_t size, bool sparse,
			struct tree_place *place, struct error *err)
{
	int r = buy_place(t, path, sparse ? 0 : page_round_up(size), place, err);

	if (r < 0 && *path)
		error_prefix(err, "write %s", path);
	return r;
}

int tree_get_link_place(struct tree *t, const char *path, struct tree_place *place,
			struct error *err)
{
	return buy_place(t, path, page_get_size(), place, err);
}

void tree_put_place(const struct tree_place *place)
{
	tree_dir_unpin(place->dir);
}

/* ---- files and links at places ---- */

/* Removes the file or link that was added before with the same name: the last one is kept. */
static int make_way(struct tree *t, int dirfd, const char *path, struct error *err)
{
	if (unlinkat(dirfd, path_base(path), 0) < 0) {
		if (errno == EISDIR) /* a directory that is not in the table any more */
			return refuse_dir(path, err);
		return error_errno(err, errno, "replace %s", path);
	}
	atomic_fetch_add_explicit(&t->n_replaced, 1, memory_order_relaxed);
	return 0;
}

static void count_made(struct tree *t)
{
	atomic_fetch_add_explicit(&t->n_made, 1, memory_order_relaxed);
}

int tree_make_symlink(struct tree *t, const struct tree_place *place, const char *path,
		      const char *to, const struct tree_meta *meta, struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, meta->mtime };
	const char *base = path_base(path);
	int dirfd = place->dir->fd, r;

	while (symlinkat(to, dirfd, base) < 0) {
		if (errno != EEXIST)
			return error_errno(err, errno, "make link %s", path);
		r = make_way(t, dirfd, path, err);
		if (r < 0)
			return r;
	}
	count_made(t);
	/* some file systems do not support this */
	utimensat(dirfd, base, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

int tree_add_symlink(struct tree *t, const char *path, const char *to, const struct tree_meta *meta,
		     struct error *err)
{
	struct tree_place place;
	int r = tree_get_link_place(t, path, &place, err);

	if (r < 0)
		return r;
	r = tree_make_symlink(t, &place, path, to, meta, err);
	tree_put_place(&place);
	return r;
}

int tree_make_file(struct tree *t, const struct tree_place *place, const char *path,
		   const struct tree_meta *meta, uint64_t size, bool sparse, int *fdp,
		   struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	const char *base = path_base(path);
	int dirfd = place->dir->fd, r;

	for (;;) {
		fd = openat(dirfd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    meta->mode & 0777);
		if (fd >= 0)
			break;
		if (errno != EEXIST)
			return error_errno(err, errno, "create %s", path);
		r = make_way(t, dirfd, path, err);
		if (r < 0)
			return r;
	}
	if ((sparse || size >= TREE_TRUNCATE_FROM) && ftruncate(fd, (off_t)size) < 0)
		return error_errno(err, errno, "set the size of %s", path);
	count_made(t);
	*fdp = steal_fd(&fd);
	return 0;
}

int tree_end_file(struct tree *t, int *fdp, const char *path, const struct tree_meta *meta,
		  struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, meta->mtime };
	_cleanup_(fd_closep) int fd = steal_fd(fdp);

	if (futimens(fd, times) < 0)
		return error_errno(err, errno, "set the time of %s", path);
	if (close(steal_fd(&fd)) < 0) /* NFS reports here that there is no space for written
				       * bytes */
		return error_errno(err, errno, "write %s", path);
	return 0;
}

int tree_refuse_link_to_nothing(const char *path, struct error *err)
{
	return error_set(err, EINVAL, "%s is a link with an empty target", path);
}

int tree_refuse_link_with_data(const char *path, struct error *err)
{
	return error_set(err, EINVAL, "%s is a hard link that brings data along", path);
}

int tree_refuse_missing_target(const char *path, const char *to, struct error *err)
{
	return error_set(err, ENOENT,
			 "%s is a hard link to %s, which is not in the archive before it", path,
			 to);
}

int tree_refuse_dir_target(const char *path, const char *to, struct error *err)
{
	return error_set(err, EISDIR, "%s is a hard link to %s, which is a directory", path, to);
}

static int refuse_link(const struct tree *t, const char *path, const char *to, struct error *err)
{
	const struct dataset *ds = t->io ? t->io->ds : NULL;

	if (!ds || (!ds->n_include && !ds->n_exclude && !ds->subdir && !ds->strip))
		return tree_refuse_missing_target(path, to, err);
	error_set(err, ENOENT,
		  "%s is a hard link to %s, which was not selected, or is not in the archive "
		  "before it",
		  path, to);
	return error_set_hint(err, -ENOENT, "select both, or leave the link out by exclude=");
}

/* Links path to the file to, which is in the directory from. */
static int link_to(const struct tree *t, const struct tree_place *place, const char *path,
		   const struct tree_dir *from, const char *to, struct error *err)
{
	struct stat st;
	int r;

	if (linkat(from->fd, path_base(to), place->dir->fd, path_base(path), 0) == 0)
		return 0;
	r = errno;
	if (r == ENOENT)
		return refuse_link(t, path, to, err);
	if (r == EPERM && fstatat(from->fd, path_base(to), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode))
		return tree_refuse_dir_target(path, to, err);
	return r == EEXIST ? -EEXIST : error_errno(err, r, "link %s to %s", path, to);
}

static int make_hardlink(struct tree *t, const struct tree_place *place, const char *path,
			 const char *to, struct error *err)
{
	struct tree_dir *from;
	int r;

	r = tree_dirs_get(t->dirs, to, parent_size(to), false, &from, err);
	if (r == -ENOENT)
		return refuse_link(t, path, to, err);
	if (r < 0)
		return r;
	r = link_to(t, place, path, from, to, err);
	if (r == -EEXIST) {
		r = make_way(t, place->dir->fd, path, err);
		if (r == 0)
			r = link_to(t, place, path, from, to, err);
	}
	tree_dir_unpin(from);
	return r;
}

/* Handles a link to itself, which a tar contains if a file was added to it twice. Fails if nothing
 * with this name exists. */
static int check_there(struct tree *t, const char *path, struct error *err)
{
	struct tree_dir *dir;
	struct stat st;
	int r;

	r = tree_dirs_get(t->dirs, path, parent_size(path), false, &dir, err);
	if (r == 0) {
		r = fstatat(dir->fd, path_base(path), &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
		tree_dir_unpin(dir);
	}
	return r == -ENOENT ? refuse_link(t, path, path, err) : r;
}

int tree_add_hardlink(struct tree *t, const char *path, const char *to, struct error *err)
{
	struct tree_place place;
	int r;

	if (!strcmp(path, to))
		return check_there(t, path, err);
	r = buy_place(t, path, 0, &place, err);
	if (r < 0)
		return r;
	r = make_hardlink(t, &place, path, to, err);
	tree_put_place(&place);
	if (r == 0)
		count_made(t);
	return r;
}

int tree_finish(struct tree *t, mode_t *root_modep, struct error *err)
{
	return tree_dirs_finish(t->dirs, root_modep, err);
}

void tree_get_counts(const struct tree *t, struct tree_counts *counts)
{
	counts->replaced = atomic_load(&t->n_replaced);
	counts->files = atomic_load(&t->n_made) - counts->replaced;
}
