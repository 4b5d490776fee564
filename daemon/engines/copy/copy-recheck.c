/*
 * A directory is listed once while others may write to it: what is renamed from one that is still
 * to come into one that was read is in neither, and the other way round in both. The directory's
 * time tells that something happened, and only then its names are compared with those of the copy.
 *
 * A name that the copy lacks was missed if what it names is older than the copy's beginning. What
 * is newer came later, as the output of a job that stages the directory it runs in.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/dataset/dataset.h"
#include "common/dataset/path-filter.h"
#include "common/util/fd.h"
#include "daemon/engines/copy/copy-internal.h"
#include "daemon/engines/copy/stage-io.h"

/* Returns true if the directory's time has changed. Sends no request if the attributes are
 * cached. */
static bool was_written_to(const struct walk_dir *dir)
{
	struct statx sx;

	return statx(dir->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MTIME, &sx) == 0 &&
	       (sx.stx_mtime.tv_sec != dir->st.st_mtim.tv_sec ||
		sx.stx_mtime.tv_nsec != (uint32_t)dir->st.st_mtim.tv_nsec);
}

static bool is_there(int dirfd, const char *name)
{
	struct stat st;

	return dirfd >= 0 && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Returns true for a link to a device, a FIFO or a socket, if links are followed. Such a link is
 * left out. */
static bool leads_to_special(const struct copy *c, const struct walk_dir *dir, const char *name)
{
	struct stat st;

	return c->io->ds->follow && fstatat(dir->fd, name, &st, 0) == 0 && !S_ISREG(st.st_mode) &&
	       !S_ISDIR(st.st_mode);
}

/* Returns true if the copy should contain this name. */
static bool is_wanted(struct copy *c, struct walk_dir *dir, const char *name)
{
	char path[WALK_PATH_SIZE];
	struct stat st;

	if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !is_older(&st.st_mtim, &c->began))
		return false;
	walk_path(dir, name, path);
	if (S_ISDIR(st.st_mode))
		return !c->lazy && !path_filter_prunes(c->filter, path);
	if (S_ISLNK(st.st_mode) && leads_to_special(c, dir, name))
		return false;
	return (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) && path_filter_takes(c->filter, path) &&
	       (!c->src->is_part || c->src->ops->takes(c->src->arg, path));
}

/* Returns what is wrong with a name in the source, or (of_copy) in the copy; NULL: nothing. */
static const char *find_fault(struct copy *c, struct walk_dir *dir, int staged, bool of_copy,
			      const char *name)
{
	if (of_copy)
		return is_there(dir->fd, name) ? NULL : "went away";
	return is_there(staged, name) || !is_wanted(c, dir, name) ? NULL : "came";
}

static int check_names(struct copy *c, struct walk_dir *dir, int staged, bool of_copy,
		       struct error *err)
{
	_cleanup_(dir_closep) DIR *names = fd_open_dir(of_copy ? staged : dir->fd, ".");
	const char *fault = NULL;
	char path[WALK_PATH_SIZE];
	struct dirent *e;
	int r = 0;

	while (names && !fault && (errno = 0, e = readdir(names))) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			fault = find_fault(c, dir, staged, of_copy, e->d_name);
	}
	if (fault)
		r = error_set(err, ESTALE, "%s %s while the directory was copied",
			      walk_path(dir, e->d_name, path), fault);
	else if (errno)
		r = error_errno(err, errno, "read %s", *dir->path ? dir->path : ".");
	return r;
}

int copy_recheck(struct copy *c, struct walk_dir *dir, int staged, struct error *err)
{
	int r;

	if (copy_is_doomed(c) || walk_is_over(c->walk) || !was_written_to(dir))
		return 0;
	r = check_names(c, dir, staged, false, err);
	return r < 0 || staged < 0 ? r : check_names(c, dir, staged, true, err);
}
