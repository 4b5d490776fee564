/*
 * The configuration decides what root's keeper does and what users may read, so nobody but root may
 * be able to change it. Each directory of the path is opened without following links and checked
 * through its descriptor, then the file. A directory that others may write to is allowed if it is
 * sticky, because the object that is opened in it is checked, too. This file also reports errors in
 * a configuration file.
 */
#include "common/config/conf-internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/fd.h"
#include "common/util/parse.h"

int conf_report(struct conf_report *r, int errnum, const char *hint, const char *fmt, ...)
{
	char text[ERROR_MAX_SIZE], clean[ERROR_MAX_SIZE];
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		text[0] = '\0';
	va_end(ap);
	if (!r)
		return -errnum;
	text_escape(clean, sizeof(clean), text, strlen(text));
	if (r->n_errors++ == 0)
		r->code = -errnum;
	r->fn(r->arg, r->file, r->line, clean, hint);
	return -errnum;
}

static bool root_alone;

void conf_trust_root_alone(void)
{
	root_alone = true;
}

/* Returns whether the uid is the overflow uid of a user namespace that does not map it. Root's
 * files then have this uid, and so have those of all unmapped users, so owners cannot be told
 * apart. Only the caller's own processes depend on what is read there. */
static bool is_unmapped(uid_t uid)
{
	_cleanup_(file_closep) FILE *f = fopen("/proc/self/uid_map", "re");
	_cleanup_(file_closep) FILE *g = fopen("/proc/sys/kernel/overflowuid", "re");
	unsigned inside, outside, count, overflow;

	if (root_alone || !f || !g || fscanf(g, "%u", &overflow) != 1 || uid != overflow)
		return false;
	while (fscanf(f, "%u %u %u", &inside, &outside, &count) == 3)
		if (inside <= overflow && overflow - inside < count)
			return false; /* a mapped user has the overflow uid here */
	return true;
}

static int check_owner(int fd, const char *path, struct conf_report *r)
{
	uid_t uid = root_alone ? 0 : geteuid();
	struct stat st;

	if (fstat(fd, &st) < 0)
		return conf_report(r, errno, "", "%s: %s", path, strerror(errno));
	if (st.st_uid != 0 && st.st_uid != uid && !is_unmapped(st.st_uid))
		return conf_report(r, EPERM, "give it to root (chown root)",
				   "%s belongs to uid %u, who could change what is allowed", path,
				   (unsigned)st.st_uid);
	if ((st.st_mode & 022) && !(S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX)))
		return conf_report(r, EPERM, "chmod go-w",
				   "%s can be changed by users other than its owner", path);
	return 0;
}

/* Opens name in dirfd. path is used in messages. */
static int open_one(int dirfd, const char *name, int flags, const char *path, struct conf_report *r)
{
	struct stat st;
	int fd, e;

	fd = openat(dirfd, name, flags | O_NOFOLLOW | O_CLOEXEC);
	e = errno;
	if (fd < 0 && e == ENOENT)
		return -ENOENT;
	if (fd < 0 && (e == ELOOP || e == ENOTDIR) &&
	    fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
		return conf_report(r, EPERM, "name the real path, or put the file itself there",
				   "%s is a symbolic link", path);
	if (fd < 0)
		return conf_report(r, e, "", "%s: %s", path, strerror(e));
	e = check_owner(fd, path, r);
	if (e < 0) {
		close(fd);
		return e;
	}
	return fd;
}

int conf_open(const char *path, bool directory, struct conf_report *r)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *copy = strdup(path);
	int flags, next;
	char *p, *end;

	if (!copy)
		return -ENOMEM;
	fd = open_one(AT_FDCWD, "/", O_PATH | O_DIRECTORY, "/", r);
	if (fd < 0)
		return fd;
	for (p = copy + 1; *p; p = end) {
		end = p + strcspn(p, "/");
		if (*end || directory)
			flags = O_DIRECTORY | (*end ? O_PATH : O_RDONLY);
		else
			flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
		if (*end) {
			*end = '\0';
			next = open_one(fd, p, flags, copy, r);
			*end++ = '/';
		} else {
			next = open_one(fd, p, flags, copy, r);
		}
		if (next < 0)
			return next;
		fd_closep(&fd);
		fd = next;
	}
	return steal_fd(&fd);
}

int conf_open_at(int dirfd, const char *name, const char *path, struct conf_report *r)
{
	return open_one(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, path, r);
}

int conf_read(int fd, const char *path, size_t max, char **datap, size_t *sizep,
	      struct conf_report *r)
{
	struct stat st;
	int ret;

	if (fstat(fd, &st) < 0)
		return conf_report(r, errno, "", "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return conf_report(r, EINVAL, "put a file there", "%s is not a regular file", path);
	ret = fd_read_file(fd, max, datap, sizep);
	if (ret == -EFBIG)
		return conf_report(r, EFBIG, "make it shorter", "%s has more than %zu bytes", path,
				   max);
	if (ret < 0)
		return conf_report(r, -ret, "", "%s: %s", path, strerror(-ret));
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_conf_name(const char *name)
{
	size_t n = strlen(name);

	return *name != '.' && n > 5 && !strcmp(name + n - 5, ".conf");
}

int conf_list_dir(int fd, const char *path, char ***namesp, size_t *n_namesp, struct conf_report *r)
{
	_cleanup_(dir_closep) DIR *dir = NULL;
	char **names = NULL, **more;
	struct dirent *e;
	size_t n = 0;
	int copy, ret = 0;

	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		ret = errno;
		fd_closep(&copy);
		return conf_report(r, ret, "", "%s: %s", path, strerror(ret));
	}
	while ((errno = 0, e = readdir(dir))) {
		if (!is_conf_name(e->d_name))
			continue;
		more = n < CONF_MAX_FILES ? realloc(names, (n + 1) * sizeof(*names)) : NULL;
		if (more)
			names = more;
		if (!more || !(names[n] = strdup(e->d_name))) {
			ret = n < CONF_MAX_FILES ? -ENOMEM
						 : conf_report(r, E2BIG, "join some of them",
							       "%s has more than %d files", path,
							       CONF_MAX_FILES);
			break;
		}
		n++;
	}
	if (ret == 0 && errno)
		ret = conf_report(r, errno, "", "%s: %s", path, strerror(errno));
	if (ret < 0) {
		while (n > 0)
			free(names[--n]);
		free(names);
		return ret;
	}
	if (n > 0)
		qsort(names, n, sizeof(*names), compare_names);
	*namesp = names;
	*n_namesp = n;
	return 0;
}
