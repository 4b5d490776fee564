/*
 * The file is appended to with one write() a line, before the thing exists; an incomplete last line
 * (after a crash during the write, or on a full file system) names something that was not made yet,
 * and is ignored. It is removed before another line is appended, because otherwise the two would be
 * one line. A lock keeps others' lines from being cut while they are written. Paths are escaped so
 * that a newline in a name stays inside its line.
 */
#include "common/protocol/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/rundir.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "common/util/strutil.h"

#define MANIFEST_MAX_SIZE (4 * 1024 * 1024)

struct manifest {
	int fd;
};

static const char *const kinds[] = {
	[MANIFEST_TREE] = "tree", [MANIFEST_MOUNT] = "mount", [MANIFEST_LEASE] = "lease"
};

int manifest_open(struct manifest **mp, const char *path, struct error *err)
{
	_cleanup_(freep) struct manifest *m = malloc(sizeof(*m));

	if (!m)
		return error_set(err, ENOMEM, "out of memory");
	m->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (m->fd < 0)
		return error_errno(err, errno, "open %s", path);
	*mp = steal_ptr(m);
	return 0;
}

void manifest_close(struct manifest *m)
{
	if (!m)
		return;
	close(m->fd);
	free(m);
}

/* Escapes a newline as "\n" and a backslash as "\\". */
static char *escape_path(const char *path)
{
	char *out = malloc(2 * strlen(path) + 1), *o = out;

	if (!out)
		return NULL;
	for (; *path; path++) {
		if (*path == '\\' || *path == '\n')
			*o++ = '\\';
		*o++ = *path == '\n' ? 'n' : *path;
	}
	*o = '\0';
	return out;
}

static void unescape_path(char *path)
{
	char *o = path;

	for (; *path; path++) {
		if (*path == '\\' && path[1]) {
			path++;
			*o++ = *path == 'n' ? '\n' : *path;
		} else {
			*o++ = *path;
		}
	}
	*o = '\0';
}

static int cut_torn_line(int fd)
{
	off_t end, size = lseek(fd, 0, SEEK_END);
	char c = '\0';

	for (end = size; end > 0; end--) {
		if (pread(fd, &c, 1, end - 1) != 1)
			return -EIO;
		if (c == '\n')
			break;
	}
	return size < 0 || (end < size && ftruncate(fd, end) < 0) ? -errno : 0;
}

static int append(int fd, const char *line, size_t size)
{
	int r;

	while ((r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	r = r < 0 ? -errno : cut_torn_line(fd);
	if (r == 0) {
		r = fd_write_all(fd, line, size);
		if (r < 0)
			(void)cut_torn_line(fd);
	}
	flock(fd, LOCK_UN);
	return r;
}

int manifest_add(struct manifest *m, enum manifest_kind kind, const char *path, struct error *err)
{
	_cleanup_(freep) char *escaped = NULL, *line = NULL;
	int r;

	if (path[0] != '/')
		return error_set(err, EINVAL, "manifest: '%s' is not an absolute path", path);
	escaped = escape_path(path);
	if (!escaped)
		return error_set(err, ENOMEM, "out of memory");
	line = strutil_printf("%s %s\n", kinds[kind], escaped);
	if (!line)
		return error_set(err, ENOMEM, "out of memory");
	r = append(m->fd, line, strlen(line));
	if (r < 0)
		return error_errno(err, -r, "write manifest");
	return 0;
}

static int remove_tree(const char *path, struct error *err)
{
	_cleanup_(freep) char *parent = strdup(path);
	_cleanup_(fd_closep) int fd = -1;
	char *slash = parent ? strrchr(parent, '/') : NULL;

	if (!parent)
		return error_set(err, ENOMEM, "out of memory");
	if (!slash || !slash[1])
		return error_set(err, EINVAL, "manifest: refuse to remove '%s'", path);
	*slash = '\0';
	fd = open(slash == parent ? "/" : parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", parent);
	return rmtree_at(fd, slash + 1, NULL, err);
}

static bool has_lease(int fd, const char *name)
{
	_cleanup_(fd_closep) int dir = openat(fd, name,
					      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_(dir_closep) DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;

	if (!d)
		return dir >= 0 || errno != ENOENT;
	dir = -1; /* d owns the descriptor now */
	while ((errno = 0, e = readdir(d)))
		if (!strncmp(e->d_name, MANIFEST_LEASE_PREFIX, strlen(MANIFEST_LEASE_PREFIX)))
			return true;
	return errno != 0;
}

/* Gives a lease back, and removes the directory if it was the last lease. Two nodes may both find
 * that no lease is left. Only one rename succeeds, and that node removes the directory. */
static int give_back(int above, const char *name, const char *lease, struct error *err)
{
	_cleanup_(freep) char *path = NULL, *aside = NULL;
	int r;

	path = strutil_printf("%s/%s", name, lease);
	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	aside = strutil_printf(".%s.%s", name, lease);
	if (!aside)
		return error_set(err, ENOMEM, "out of memory");
	r = rmtree_at(above, aside, NULL, err); /* left by a crash after the rename */
	if (r < 0)
		return r;
	if (unlinkat(above, path, 0) < 0 && errno != ENOENT && errno != ENOTDIR)
		return error_errno(err, errno, "remove %s", path);
	if (has_lease(above, name))
		return 0;
	if (renameat(above, name, above, aside) < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "rename %s", name);
	/* A node that came after the check has a lease in the directory with the old name. */
	if (has_lease(above, aside) && renameat(above, aside, above, name) == 0)
		return 0;
	return rmtree_at(above, aside, NULL, err);
}

/* Opens the parent directory of a lease. If it does not belong to the caller alone, it cannot
 * contain one of the caller's leases. */
static int open_above(const char *path, int *fdp, struct error *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? -ENOENT : error_errno(err, errno, "open %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return error_set(err, EPERM, "%s is not the job's own directory any more", path);
	*fdp = steal_fd(&fd);
	return 0;
}

static int release_lease(char *path, struct error *err)
{
	char *lease = strrchr(path, '/'), *name;
	_cleanup_(fd_closep) int above = -1;
	int r;

	*lease++ = '\0';
	name = strrchr(path, '/');
	if (!name || name == path || !name[1] ||
	    strncmp(lease, MANIFEST_LEASE_PREFIX, strlen(MANIFEST_LEASE_PREFIX)))
		return error_set(err, EINVAL, "manifest: no lease is '%s/%s'", path, lease);
	*name++ = '\0';
	r = open_above(path, &above, err);
	if (r == 0)
		r = give_back(above, name, lease, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (rmdir(path) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
		return error_errno(err, errno, "remove %s", path);
	return 0;
}

static int release_line(char *line, int (*unmount)(const char *target, struct error *err),
			struct error *err)
{
	char *path = strchr(line, ' ');

	if (!path || path[1] != '/')
		return 0;
	*path++ = '\0';
	unescape_path(path);
	if (!strcmp(line, kinds[MANIFEST_MOUNT]))
		return unmount ? unmount(path, err) : 0;
	if (!strcmp(line, kinds[MANIFEST_TREE]))
		return remove_tree(path, err);
	if (!strcmp(line, kinds[MANIFEST_LEASE]))
		return release_lease(path, err);
	return error_set(err, EINVAL, "manifest: unknown kind '%s'", line);
}

int manifest_release(const char *path, int (*unmount)(const char *target, struct error *err),
		     struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *data = NULL;
	int first = 0, r;
	struct stat st;
	size_t size;
	char *end, *line;

	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "%s is no manifest", path);
	r = fd_read_file(fd, MANIFEST_MAX_SIZE, &data, &size);
	if (r < 0)
		return error_errno(err, -r, "read %s", path);
	end = strrchr(data, '\n'); /* the text after the last newline is an incomplete line */
	while (end) {
		*end = '\0';
		line = strrchr(data, '\n');
		r = release_line(line ? line + 1 : data, unmount, first ? NULL : err);
		if (r < 0 && !first)
			first = r;
		end = line;
	}
	if (first == 0 && ftruncate(fd, 0) < 0)
		return error_errno(err, errno, "empty %s", path);
	return first;
}

static int release_in(const char *dir, const char *name,
		      int (*unmount)(const char *target, struct error *err), struct error *err)
{
	_cleanup_(freep) char *path = path_join(dir, name);

	return path ? manifest_release(path, unmount, err)
		    : error_set(err, ENOMEM, "out of memory");
}

int manifest_release_all(const char *dir, int (*unmount)(const char *target, struct error *err),
			 struct error *err)
{
	const char *own = path_base(RUNDIR_MANIFEST);
	_cleanup_(dir_closep) DIR *d = opendir(dir);
	size_t n = strlen(own);
	struct dirent *entry;
	int first = 0, r;

	if (!d)
		return errno == ENOENT ? 0 : error_errno(err, errno, "open %s", dir);
	while ((errno = 0, entry = readdir(d))) {
		if (strncmp(entry->d_name, own, n) || entry->d_name[n] != '.')
			continue;
		r = release_in(dir, entry->d_name, unmount, first ? NULL : err);
		first = first ? first : r;
	}
	if (errno && !first)
		first = error_errno(err, errno, "read %s", dir);
	r = release_in(dir, own, unmount, first ? NULL : err);
	return first ? first : r;
}
