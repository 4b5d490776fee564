#include "tests/bench/slow-handles.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/cleanup.h"

struct slow_dir {
	DIR *dir;
	const struct dirent *ent; /* read, and not yet taken */
	off_t offset;		  /* of ent, or of the next */
};

static int open_path(int root, const char *path, int flags)
{
	if (!path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return openat(root, path, flags | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

struct slow_file *slow_file_open(int root, const char *path)
{
	_cleanup_(freep) struct slow_file *file = calloc(1, sizeof(*file));
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (!file)
		return NULL;
	fd = open_path(root, path, O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	file->size = st.st_size;
	file->fd = steal_fd(&fd);
	return steal_ptr(file);
}

ssize_t slow_file_read(const struct slow_file *file, char *buf, size_t size, off_t offset)
{
	size_t n = 0;
	ssize_t r;

	while (n < size) {
		r = pread(file->fd, buf + n, size - n, offset + (off_t)n);
		if (r < 0)
			return -1;
		if (r == 0)
			break;
		n += (size_t)r;
	}
	return (ssize_t)n;
}

void slow_file_close(void *file)
{
	close(((struct slow_file *)file)->fd);
	free(file);
}

struct slow_dir *slow_dir_open(int root, const char *path)
{
	_cleanup_(freep) struct slow_dir *d = calloc(1, sizeof(*d));
	_cleanup_(fd_closep) int fd = -1;

	if (!d)
		return NULL;
	fd = open_path(root, path, O_DIRECTORY);
	if (fd < 0)
		return NULL;
	d->dir = fdopendir(fd);
	if (!d->dir)
		return NULL;
	steal_fd(&fd);
	return steal_ptr(d);
}

void slow_dir_close(void *dir)
{
	closedir(((struct slow_dir *)dir)->dir);
	free(dir);
}

void slow_dir_seek(struct slow_dir *d, off_t offset)
{
	if (offset == d->offset)
		return;
	seekdir(d->dir, offset);
	d->ent = NULL;
	d->offset = offset;
}

const struct dirent *slow_dir_get(struct slow_dir *d)
{
	errno = 0;
	if (!d->ent)
		d->ent = readdir(d->dir);
	return d->ent;
}

void slow_dir_next(struct slow_dir *d)
{
	d->offset = d->ent->d_off;
	d->ent = NULL;
}
