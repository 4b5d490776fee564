/*
 * slow-handles: files and directories that the readers of a slow source have open. Each handle has
 * its own function to close it, which takes the handle as it is stored in a FUSE request. If a
 * function returns NULL, errno has the reason.
 */
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include "tests/bench/slow-pace.h"

struct slow_file {
	int fd;
	off_t size;
	struct slow_stream stream;
};

/* path is below the directory root; NULL is one that was too long. */
struct slow_file *slow_file_open(int root, const char *path);
/* Less than size is the end of the file. -1: errno. */
ssize_t slow_file_read(const struct slow_file *file, char *buf, size_t size, off_t offset);
void slow_file_close(void *file);

struct slow_dir;

struct slow_dir *slow_dir_open(int root, const char *path);
void slow_dir_close(void *dir);
/* Goes to where d_off of an entry said that the next one is, 0 for the first. */
void slow_dir_seek(struct slow_dir *d, off_t offset);
/* The entry here, the same until slow_dir_next(). NULL: the end, or a failure with errno. */
const struct dirent *slow_dir_get(struct slow_dir *d);
void slow_dir_next(struct slow_dir *d);
