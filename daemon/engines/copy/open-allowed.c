/*
 * A path is opened twice. The first time, with O_PATH, shows its type and its place; this neither
 * waits for a FIFO nor activates a device. The second time, the same inode is opened for reading
 * by /proc/self/fd. So the file that was checked is the file that is read, even if the path
 * changes in between.
 */
#include "daemon/engines/copy/open-allowed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "daemon/engines/copy/rule-patterns.h"

static int refuse_type(const char *path, mode_t mode, struct error *err)
{
	const char *what = S_ISFIFO(mode)   ? "a FIFO"
			   : S_ISSOCK(mode) ? "a socket"
			   : S_ISCHR(mode)  ? "a character device"
			   : S_ISBLK(mode)  ? "a block device"
					    : "neither a file nor a directory";

	error_set(err, EINVAL, "%s is %s", path, what);
	return error_set_hint(err, -EINVAL, "name a file or a directory");
}

/* Returns whether this is a file of /proc or /sys, whose size is 0 in spite of its content. A copy
 * would be empty. */
static bool is_of_kernel(int fd, const struct stat *st)
{
	struct statfs fs;

	return S_ISREG(st->st_mode) && st->st_size == 0 && fstatfs(fd, &fs) == 0 &&
	       (fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC);
}

static int refuse_kernel(const char *path, struct error *err)
{
	error_set(err, EINVAL, "%s is a file of /proc or /sys, whose size is not known", path);
	return error_set_hint(err, -EINVAL, "copy its content to another file, and stage that");
}

static int read_real(int fd, char **realp)
{
	char name[64], real[PATH_MAX];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, real, sizeof(real));
	if (n < 0)
		return -errno;
	if ((size_t)n >= sizeof(real))
		return -ENAMETOOLONG;
	if (real[0] != '/')
		return -ENOENT; /* such as "(unreachable)/…" */
	*realp = strndup(real, (size_t)n);
	return *realp ? 0 : -ENOMEM;
}

/* Opens a path with O_PATH. A directory is opened again with O_DIRECTORY, so that an automounter
 * mounts it. */
static int open_to_look(int dirfd, const char *name, const char *path, struct stat *st,
			struct error *err)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, name, O_PATH | O_CLOEXEC);
	int dir;

	if (fd < 0 || fstat(fd, st) < 0)
		return error_errno(err, errno, "%s", path);
	if (!S_ISDIR(st->st_mode))
		return steal_fd(&fd);
	dir = openat(dirfd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return error_errno(err, errno, "%s", path);
	close(steal_fd(&fd));
	fd = dir;
	if (fstat(fd, st) < 0)
		return error_errno(err, errno, "%s", path);
	return steal_fd(&fd);
}

/* Returns whether real is below top (NULL: none), a directory that the rule covers. top is checked
 * again, because the member of a set may have been renamed since it was opened. */
static bool is_in_top(char *const *rules, const char *top, const char *real)
{
	return top && path_is_beneath(real, top) && rule_patterns_allow(rules, top);
}

static int refuse_outside(const char *path, const char *real, struct error *err)
{
	if (!strcmp(path, real)) {
		error_set(err, EPERM, "%s is outside of what the site's rule allows", path);
		return error_set_hint(err, -EPERM, "stagectl explain shows what the site allows");
	}
	error_set(err, EPERM, "%s, which is %s, is outside of what the site's rule allows", path,
		  real);
	return error_set_hint(err, -EPERM,
			      "put a copy in the place of the link; stagectl explain shows what "
			      "the site allows");
}

/* Opens `name` in dirfd and checks where it really is. path: its name for messages. */
static int open_checked(char *const *rules, const char *top, int dirfd, const char *name,
			const char *path, int *fdp, struct stat *st, char **realp,
			struct error *err)
{
	_cleanup_(freep) char *real = NULL;
	_cleanup_(fd_closep) int look = -1;
	int fd, r;

	look = open_to_look(dirfd, name, path, st, err);
	if (look < 0)
		return look;
	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return refuse_type(path, st->st_mode, err);
	if (is_of_kernel(look, st))
		return refuse_kernel(path, err);
	r = read_real(look, &real);
	if (r < 0)
		return error_errno(err, -r, "resolve %s", path);
	if (!rule_patterns_allow(rules, real) && !is_in_top(rules, top, real))
		return refuse_outside(path, real, err);
	fd = fd_reopen(look, O_RDONLY | (S_ISDIR(st->st_mode) ? O_DIRECTORY : 0));
	if (fd < 0)
		return error_errno(err, -fd, "open %s", path);
	*fdp = fd;
	if (realp)
		*realp = steal_ptr(real);
	return 0;
}

int allowed_refuse_missing(const char *path, int r, struct error *err)
{
	char to[PATH_MAX] = "";

	if (r == -ENOENT && readlink(path, to, sizeof(to) - 1) >= 0) {
		error_set(err, ENOENT, "%s is a link to %s, which is not there", path, to);
		error_set_hint(err, r,
			       "get it (git annex get, for example), fix the link, or check that "
			       "this node sees where it leads");
	}
	return r;
}

int allowed_open_path(char *const *rules, const char *path, int *fdp, struct stat *st, char **realp,
		      struct error *err)
{
	int r = open_checked(rules, NULL, AT_FDCWD, path, path, fdp, st, realp, err);

	return allowed_refuse_missing(path, r, err);
}

static int refuse_above(const struct allowed *a, const char *path, struct error *err)
{
	error_set(err, ELOOP,
		  "%s is a link to a directory that contains it: following it never ends", path);
	return error_set_hint(err, -ELOOP, "%s, or keep the links (links=keep)", a->leave_out);
}

int allowed_open_link(const struct allowed *a, int root, int dirfd, const char *name,
		      const char *path, int *fdp, struct stat *st, struct error *err)
{
	_cleanup_(freep) char *member = NULL, *real = NULL;
	_cleanup_(fd_closep) int fd = -1;
	char to[PATH_MAX] = "";
	const char *from;
	int r = 0;

	if (!a->real)
		r = read_real(root, &member);
	if (r < 0)
		return error_errno(err, -r, "resolve the directory of %s", path);
	from = a->real ? a->real : member;
	r = open_checked(a->rules, a->top ? a->top : from, dirfd, name, path, &fd, st, &real, err);
	if (r == 0 && S_ISDIR(st->st_mode) && path_is_beneath(from, real))
		return refuse_above(a, path, err);
	if (r == 0)
		*fdp = steal_fd(&fd);
	if (r == -ELOOP) {
		error_set(err, ELOOP, "%s is a link that leads back to itself", path);
		error_set_hint(err, r, "%s", a->leave_out);
	}
	if (r == -ENOENT && readlinkat(dirfd, name, to, sizeof(to) - 1) >= 0) {
		error_set(err, ENOENT, "%s leads to %s, which is not there", path, to);
		error_set_hint(err, r, "get it (git annex get, for example), or %s", a->leave_out);
	}
	return r;
}
