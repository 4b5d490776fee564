/*
 * Samples of a webdataset are the files that share a key: the path up to the first dot of the last
 * part ("train/0001.jpg", "train/0001.json"). Sorting by the complete name would separate them if
 * another byte sorts before the dot ("a", "a-1.jpg", "a.jpg"), so they are sorted by the key first.
 */
#include "client/pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/output.h"
#include "client/tar-writer.h"
#include "common/util/cleanup.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/strutil.h"

void pack_list_deinit(struct pack_list *l)
{
	for (size_t i = 0; i < l->n_files; i++)
		free(l->files[i].path);
	free(l->files);
	*l = (struct pack_list){ 0 };
}

static size_t get_key_size(const char *path)
{
	const char *base = strrchr(path, '/'), *dot;

	base = base ? base + 1 : path;
	dot = base[0] == '.' ? NULL : strchr(base, '.');
	return dot ? (size_t)(dot - path) : strlen(path);
}

static int pack_list_add_path(struct pack_list *l, const char *path, const struct stat *st,
			      struct error *err)
{
	struct pack_file *f;

	if (l->n_files == l->n_allocated) {
		size_t n = l->n_allocated ? 2 * l->n_allocated : 1024;

		f = realloc(l->files, n * sizeof(*f));
		if (!f)
			return error_set(err, ENOMEM, "out of memory after %zu files", l->n_files);
		l->files = f;
		l->n_allocated = n;
	}
	f = &l->files[l->n_files];
	*f = (struct pack_file){ .path = strdup(path),
				 .n_key = get_key_size(path),
				 .size = S_ISDIR(st->st_mode) ? 0 : (uint64_t)st->st_size,
				 .mtime = st->st_mtim,
				 .mode = st->st_mode & 0777,
				 .is_dir = S_ISDIR(st->st_mode) };
	if (!f->path)
		return error_set(err, ENOMEM, "out of memory after %zu files", l->n_files);
	l->n_files++;
	l->size += f->size;
	return 0;
}

static int walk(struct pack_list *l, int dirfd, const char *prefix, unsigned depth,
		struct error *err);

static int refuse_link(int dirfd, const char *name, const char *path, int errnum, struct error *err)
{
	char to[PATH_MAX] = "";

	if (errnum == ELOOP)
		return error_set(err, ELOOP,
				 "%s is a link that leads back to itself; remove the link", path);
	if (errnum != ENOENT || readlinkat(dirfd, name, to, sizeof(to) - 1) < 0)
		return error_errno(err, errnum, "look at %s", path);
	return error_set(err, ENOENT,
			 "%s leads to %s, which is not there; get it (git annex get, for "
			 "example), or remove the link",
			 path, to);
}

/* Refuses the directory of the result, to which a link has led: the result would contain a part of
 * itself. */
static int check_out(const struct pack_list *l, const struct stat *st, const char *path,
		     struct error *err)
{
	if (!l->out || l->out_dir.dev != st->st_dev || l->out_dir.ino != st->st_ino)
		return 0;
	return error_exit(err, STAGE_EXIT_USAGE, EINVAL,
			  "%s is inside of %s; write it somewhere else", l->out, path);
}

/* Refuses a link to a directory above it: following it would never end. */
static int check_above(struct pack_list *l, const struct stat *st, const char *path, unsigned depth,
		       struct error *err)
{
	for (unsigned i = 0; i <= depth; i++)
		if (l->above[i].dev == st->st_dev && l->above[i].ino == st->st_ino)
			return error_set(err, ELOOP,
					 "%s is a link to a directory that contains it: following "
					 "it never ends; remove it, or keep the links "
					 "(--links=keep)",
					 path);
	l->above[depth + 1] = (struct pack_place){ st->st_dev, st->st_ino };
	return 0;
}

static int walk_entry(struct pack_list *l, int dirfd, const char *name, const char *path,
		      unsigned depth, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	bool is_link;
	int r;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_errno(err, errno, "look at %s", path);
	is_link = S_ISLNK(st.st_mode);
	if (is_link && fstatat(dirfd, name, &st, 0) < 0) {
		l->n_skipped++;
		return l->follow ? refuse_link(dirfd, name, path, errno, err) : 0;
	}
	if (!S_ISREG(st.st_mode) && (!S_ISDIR(st.st_mode) || (is_link && !l->follow))) {
		l->n_skipped++;
		return 0;
	}
	l->n_followed += is_link;
	if (S_ISREG(st.st_mode))
		return pack_list_add_path(l, path, &st, err);
	r = check_above(l, &st, path, depth, err);
	if (r == 0)
		r = check_out(l, &st, path, err);
	if (r == 0 && l->with_dirs)
		r = pack_list_add_path(l, path, &st, err);
	if (r < 0)
		return r;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | (is_link ? 0 : O_NOFOLLOW) | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %s", path);
	return walk(l, steal_fd(&fd), path, depth + 1, err);
}

/* Closes dirfd. */
static int walk(struct pack_list *l, int dirfd, const char *prefix, unsigned depth,
		struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = fdopendir(dirfd);
	const struct dirent *e;
	int r;

	if (!dir) {
		close(dirfd);
		return error_errno(err, ENOMEM, "read %s", prefix);
	}
	if (depth > PACK_MAX_DEPTH)
		return error_set(err, ELOOP, "%s is nested too deeply", prefix);
	while (errno = 0, (e = readdir(dir))) {
		_cleanup_(freep) char *path = NULL;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		path = strutil_printf("%s%s%s", prefix, prefix[0] ? "/" : "", e->d_name);
		if (!path)
			return error_set(err, ENOMEM, "out of memory");
		r = walk_entry(l, dirfd, e->d_name, path, depth, err);
		if (r < 0)
			return r;
	}
	return errno ? error_errno(err, errno, "read %s", prefix) : 0;
}

static int by_key(const void *a, const void *b)
{
	const struct pack_file *x = a, *y = b;
	size_t n = x->n_key < y->n_key ? x->n_key : y->n_key;
	int r = memcmp(x->path, y->path, n);

	if (r)
		return r;
	if (x->n_key != y->n_key)
		return x->n_key < y->n_key ? -1 : 1;
	return strcmp(x->path, y->path);
}

static int find_out(struct pack_list *l, struct error *err)
{
	const char *slash = strrchr(l->out, '/');
	_cleanup_(freep) char *dir = slash ? strndup(l->out, (size_t)(slash - l->out) + 1)
					   : strdup(".");
	struct stat st;

	if (!dir)
		return error_set(err, ENOMEM, "out of memory");
	if (stat(dir, &st) < 0)
		return error_errno(err, errno, "look at %s", dir);
	l->out_dir = (struct pack_place){ st.st_dev, st.st_ino };
	return 0;
}

int pack_list_read(struct pack_list *l, int dirfd, struct error *err)
{
	_cleanup_(fd_closep) int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_errno(err, errno, "open the directory");
	l->above[0] = (struct pack_place){ st.st_dev, st.st_ino };
	r = l->out ? find_out(l, err) : 0;
	if (r < 0)
		return r;
	r = walk(l, steal_fd(&fd), "", 0, err);
	if (r < 0)
		return r;
	if (l->n_files)
		qsort(l->files, l->n_files, sizeof(*l->files), by_key);
	return 0;
}

static int refuse_changed(const struct pack_file *f, struct error *err)
{
	return error_set(err, ESTALE,
			 "%s changed while it was packed; pack again when nothing writes to it",
			 f->path);
}

/* Checks that the file has not changed since it was listed. */
static int check_same(const struct pack_file *f, int fd, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "look at %s", f->path);
	if ((uint64_t)st.st_size != f->size || st.st_mtim.tv_sec != f->mtime.tv_sec ||
	    st.st_mtim.tv_nsec != f->mtime.tv_nsec)
		return refuse_changed(f, err);
	return 0;
}

int pack_list_put(const struct pack_file *f, struct tar_writer *w, int dirfd, char *buffer,
		  bool (*step)(void *arg, size_t n), void *arg, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	uint64_t left = f->size;
	ssize_t n;
	int r;

	if (f->is_dir) {
		r = tar_writer_add_dir(w, f->path, f->mode, f->mtime.tv_sec);
		return r < 0 ? error_errno(err, -r, "write the tar") : 0;
	}
	/* It may be a FIFO now. */
	fd = openat(dirfd, f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %s", f->path);
	(void)fd_set_nonblock(fd, false); /* reads wait for a file that is on tape or locked */
	r = check_same(f, fd, err);
	if (r < 0)
		return r;
	r = tar_writer_begin(w, f->path, f->mode, f->size, f->mtime.tv_sec);
	while (r == 0 && left > 0) {
		n = read(fd, buffer, left < PACK_BUFFER ? (size_t)left : PACK_BUFFER);
		if (n < 0)
			return error_errno(err, errno, "read %s", f->path);
		if (n == 0)
			return refuse_changed(f, err);
		r = tar_writer_put(w, buffer, (size_t)n);
		left -= (uint64_t)n;
		if (step && !step(arg, (size_t)n))
			return -EINTR;
	}
	return r < 0 ? error_errno(err, -r, "write the tar") : check_same(f, fd, err);
}

void pack_list_tell(const struct pack_list *l)
{
	const unsigned long long n = l->n_followed;

	if (l->follow && n)
		output_error("%llu %s to", n,
			     count_word(n, "link was packed as what it leads",
					"links were packed as what they lead"));
	if (l->n_skipped)
		output_error("left out: %llu %s", (unsigned long long)l->n_skipped,
			     l->follow ? "sockets, FIFOs or devices"
				       : "dangling links, links to directories or what is no file");
}

size_t pack_list_get_group(const struct pack_list *l, size_t i)
{
	const struct pack_file *first = &l->files[i];
	size_t n = 1;

	while (i + n < l->n_files && l->files[i + n].n_key == first->n_key &&
	       !memcmp(l->files[i + n].path, first->path, first->n_key))
		n++;
	return n;
}
