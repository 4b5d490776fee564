#include "client/out-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/fd.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/strutil.h"

#define MAX_LINKS 40 /* as the kernel */

/* Follows links of which the last one may lead to a name that does not exist. */
static int follow(char **realp, const char *path)
{
	_cleanup_(freep) char *at = strdup(path);
	char target[PATH_MAX];
	ssize_t n;

	for (int i = 0; at && i < MAX_LINKS; i++) {
		char *next;

		n = readlink(at, target, sizeof(target) - 1);
		if (n < 0) {
			*realp = steal_ptr(at);
			return 0;
		}
		target[n] = '\0';
		next = target[0] == '/'
			       ? strdup(target)
			       : strutil_printf("%.*s%s", (int)(path_base(at) - at), at, target);
		free(at);
		at = next;
	}
	return at ? -ELOOP : -ENOMEM;
}

int out_file_resolve(char **realp, const char *path)
{
	struct stat st;
	char *real;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? follow(realp, path) : -errno;
	real = S_ISREG(st.st_mode) ? realpath(path, NULL) : strdup(path);
	if (!real)
		return -errno;
	*realp = real;
	return 0;
}

/* Returns the descriptor of this process that the path names, or -1. */
static int find_own(const char *path)
{
	static const char *const dirs[] = { "/dev/fd/", "/proc/self/fd/" };
	uint32_t fd;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (!strncmp(path, dirs[i], strlen(dirs[i])) &&
		    parse_uint32(path + strlen(dirs[i]), &fd) == 0 && fd <= INT_MAX)
			return (int)fd;
	return -1;
}

/* Opening its path again would write at the start of the file. */
static int dup_own(int own)
{
	const int fd = fcntl(own, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

/* Makes a temporary file beside o->path. Its name does not contain that of the file, because it
 * could become too long. */
static int make_tmp(struct out_file *o, mode_t mode)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *tmp = NULL;

	tmp = strutil_printf("%.*s.stagectl.XXXXXX", (int)(path_base(o->path) - o->path), o->path);
	if (!tmp)
		return -ENOMEM;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	o->tmp = steal_ptr(tmp);
	return fchmod(fd, mode) < 0 ? -errno : steal_fd(&fd);
}

/* A file that exists may be in a directory where no file can be created. */
static int open_existing(struct out_file *o, const char *path, const struct stat *st)
{
	int fd = -1, r = 0;

	if (S_ISREG(st->st_mode))
		r = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0
			    ? -errno
			    : out_file_resolve(&o->path, path);
	if (r < 0 && r != -ENOENT)
		return r;
	if (o->path)
		fd = make_tmp(o, st->st_mode & 0777);
	if (fd >= 0 || (o->path && fd != -EACCES && fd != -EPERM))
		return fd;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | (S_ISREG(st->st_mode) ? O_TRUNC : 0));
	return fd < 0 ? -errno : fd;
}

static int open_new(struct out_file *o, const char *path)
{
	const mode_t mask = umask(0);
	int r;

	umask(mask);
	r = out_file_resolve(&o->path, path);
	return r < 0 ? r : make_tmp(o, 0666 & ~mask);
}

static void deinit(struct out_file *o)
{
	free(o->tmp);
	free(o->path);
	*o = (struct out_file){ 0 };
}

int out_file_open(struct out_file *o, const char *path)
{
	const int own = find_own(path);
	struct stat st;
	int fd;

	*o = (struct out_file){ 0 };
	if (own >= 0)
		fd = dup_own(own);
	else if (stat(path, &st) == 0)
		fd = open_existing(o, path, &st);
	else
		fd = errno == ENOENT ? open_new(o, path) : -errno;
	o->f = fd < 0 ? NULL : fdopen(fd, "w");
	if (o->f)
		return 0;
	if (fd >= 0)
		close(fd);
	if (o->tmp)
		unlink(o->tmp);
	deinit(o);
	return fd < 0 ? fd : -ENOMEM;
}

int out_file_close(struct out_file *o, int result)
{
	if (result == 0 && (fflush(o->f) || ferror(o->f)))
		result = errno ? -errno : -EIO;
	if (fclose(o->f) && result == 0)
		result = -errno;
	if (result == 0 && o->tmp && rename(o->tmp, o->path) < 0)
		result = -errno;
	if (result < 0 && o->tmp)
		unlink(o->tmp);
	deinit(o);
	return result;
}
