#include "daemon/mover/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/rmtree.h"

#define OLD ".stage-old"

int place_open(struct place *p, const char *dir, const char *name, struct error *err)
{
	struct stat st;

	if (!*name || strchr(name, '/') || !strncmp(name, ".stage-", 7) || !strcmp(name, ".") ||
	    !strcmp(name, ".."))
		return error_set(err, EINVAL, "'%s' can't be the name of a copy", name);
	p->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->fd < 0 || fstat(p->fd, &st) < 0)
		return error_errno(err, errno, "open %s", dir);
	/* Others who may write to a directory above could have replaced it since the mover was
	 * submitted. */
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, EPERM,
				 "%s is no directory of yours alone; remove it, or chmod go-w it",
				 dir);
	p->name = name;
	return 0;
}

static int lock(int fd)
{
	int r;

	do {
		r = flock(fd, LOCK_EX);
	} while (r < 0 && errno == EINTR);
	return r < 0 && errno != ENOSYS && errno != EOPNOTSUPP && errno != ENOLCK ? -errno : 0;
}

int place_lock(struct place *p, struct error *err)
{
	int r;

	p->lock_fd = openat(p->fd, PLACE_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (p->lock_fd < 0)
		return error_errno(err, errno, "create " PLACE_LOCK);
	r = lock(p->lock_fd);
	if (r < 0)
		return error_errno(err, -r, "lock " PLACE_LOCK);
	if (mkdirat(p->fd, PLACE_PARTIAL, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "make directory " PLACE_PARTIAL);
	p->partial_fd = openat(p->fd, PLACE_PARTIAL,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return p->partial_fd < 0 ? error_errno(err, errno, "open " PLACE_PARTIAL) : 0;
}

void place_close(struct place *p)
{
	fd_closep(&p->partial_fd);
	fd_closep(&p->fd);
	fd_closep(&p->lock_fd);
	*p = (struct place)PLACE_NONE;
}

int place_sync(const struct place *p, struct error *err)
{
	return syncfs(p->fd) < 0 ? error_errno(err, errno, "write to disk") : 0;
}

/* Makes a directory writable, because moving it changes its entry "..". */
static int make_movable(int dirfd, const char *name)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	return fchmodat(dirfd, name, (st.st_mode & 0777) | 0700, 0) < 0 ? -errno : 0;
}

/* Replaces the copy by the partial one. On file systems without RENAME_EXCHANGE (Lustre, GPFS),
 * there is no copy for a moment. */
static int swap(struct place *p)
{
	int r;

	if (renameat2(p->partial_fd, p->name, p->fd, p->name, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno == ENOENT)
		return renameat(p->partial_fd, p->name, p->fd, p->name) < 0 ? -errno : 0;
	r = rmtree_at(p->fd, OLD, NULL, NULL);
	if (r < 0)
		return r;
	if ((renameat(p->fd, p->name, p->fd, OLD) < 0 && errno != ENOENT) ||
	    renameat(p->partial_fd, p->name, p->fd, p->name) < 0)
		return -errno;
	return rmtree_at(p->fd, OLD, NULL, NULL);
}

static int finish_directory(struct place *p, const struct stat *st)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, st->st_mtim };
	_cleanup_(fd_closep) int fd = -1;

	fd = openat(p->fd, p->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 || futimens(fd, times) < 0 || fchmod(fd, (st->st_mode & 0777) | 0500) < 0
		       ? -errno
		       : 0;
}

int place_publish(struct place *p, const struct stat *st, struct error *err)
{
	int r;

	r = make_movable(p->fd, p->name);
	if (r == 0)
		r = swap(p);
	if (r == 0 && S_ISDIR(st->st_mode))
		r = finish_directory(p, st);
	if (r < 0)
		return error_errno(err, -r, "put %s in its place", p->name);
	r = rmtree_at(p->fd, PLACE_PARTIAL, NULL, err);
	if (r == 0 && unlinkat(p->fd, PLACE_JOURNAL, 0) < 0 && errno != ENOENT)
		r = error_errno(err, errno, "remove " PLACE_JOURNAL);
	return r;
}
