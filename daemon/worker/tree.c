/*
 * Every directory of the tree is in a table, by path. A directory that is not in the table is made
 * by mkdirat(), and if something stands there already, it is a file or a link of the archive's, and
 * that is an error: so no link is ever stepped through, without looking at each component again for
 * each file. Directories never go away: a file does not replace one.
 *
 * Some of the entries have their directory open; the last TREE_MAX_OPEN stay so.
 */
#include "daemon/worker/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/path.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/member-path.h"

#define TREE_MAX_OPEN 192
#define TREE_PAGE 4096
#define TREE_TRUNCATE_FROM (1u << 20)

struct dir {
	struct dir *next; /* in its bucket */
	uint32_t hash;
	int fd; /* -1: not open now */
	bool has_meta, pinned;
	struct tree_meta meta;
	char path[];
};

struct tree {
	int root;
	struct ctx *ctx;
	struct dir **buckets;
	size_t n_buckets, n_dirs;
	struct dir *open[TREE_MAX_OPEN]; /* a ring */
	size_t next_open;
	struct tree_counts counts;
	bool has_root_meta;
	struct tree_meta root_meta;
};

static uint32_t hash_path(const char *s, size_t n)
{
	uint32_t h = 2166136261u;

	while (n-- > 0)
		h = (h ^ (unsigned char)*s++) * 16777619u;
	return h;
}

int tree_new(struct tree **tp, int root, struct ctx *ctx, struct error *err)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (t) {
		t->n_buckets = 1024;
		t->buckets = calloc(t->n_buckets, sizeof(*t->buckets));
	}
	if (!t || !t->buckets) {
		free(t);
		return error_set(err, ENOMEM, "out of memory");
	}
	t->root = root;
	t->ctx = ctx;
	*tp = t;
	return 0;
}

void tree_free(struct tree *t)
{
	struct dir *d, *next;

	if (!t)
		return;
	for (size_t i = 0; i < t->n_buckets; i++) {
		for (d = t->buckets[i]; d; d = next) {
			next = d->next;
			fd_closep(&d->fd);
			free(d);
		}
	}
	free(t->buckets);
	free(t);
}

static struct dir *find_dir(const struct tree *t, const char *path, size_t n)
{
	uint32_t h = hash_path(path, n);
	struct dir *d = t->buckets[h & (t->n_buckets - 1)];

	while (d && (d->hash != h || strncmp(d->path, path, n) || d->path[n]))
		d = d->next;
	return d;
}

static void grow_table(struct tree *t)
{
	size_t n = 2 * t->n_buckets;
	struct dir **buckets = calloc(n, sizeof(*buckets)), *d, *next;

	if (!buckets)
		return; /* longer chains, no harm */
	for (size_t i = 0; i < t->n_buckets; i++) {
		for (d = t->buckets[i]; d; d = next) {
			next = d->next;
			d->next = buckets[d->hash & (n - 1)];
			buckets[d->hash & (n - 1)] = d;
		}
	}
	free(t->buckets);
	t->buckets = buckets;
	t->n_buckets = n;
}

static struct dir *insert_dir(struct tree *t, const char *path, size_t n)
{
	struct dir *d = calloc(1, sizeof(*d) + n + 1), **bucket;

	if (!d)
		return NULL;
	memcpy(d->path, path, n);
	d->hash = hash_path(path, n);
	d->fd = -1;
	if (++t->n_dirs > t->n_buckets)
		grow_table(t);
	bucket = &t->buckets[d->hash & (t->n_buckets - 1)];
	d->next = *bucket;
	*bucket = d;
	return d;
}

/* d gets the fd and a place in the ring; who was there is closed. */
static void keep_open(struct tree *t, struct dir *d, int fd)
{
	size_t tries = 0;
	struct dir *old;

	while ((old = t->open[t->next_open]) && old->pinned && tries++ < TREE_MAX_OPEN)
		t->next_open = (t->next_open + 1) % TREE_MAX_OPEN;
	if (old)
		fd_closep(&old->fd);
	if (old)
		old->fd = -1;
	d->fd = fd;
	t->open[t->next_open] = d;
	t->next_open = (t->next_open + 1) % TREE_MAX_OPEN;
}

static int charge(struct tree *t, uint64_t bytes, uint64_t files, struct error *err)
{
	return t->ctx ? ctx_charge(t->ctx, bytes, files, err) : 0;
}

static int get_dir(struct tree *t, const char *path, size_t n, bool make, struct dir **dirp,
		   struct error *err);

/* The fd of the directory that path[0..n) is in, and the last component. */
static int get_parent(struct tree *t, const char *path, size_t n, bool make, int *fdp,
		      const char **basep, struct error *err)
{
	size_t cut = n;
	struct dir *d;
	int r;

	while (cut > 0 && path[cut - 1] != '/')
		cut--;
	*basep = path + cut;
	if (cut == 0) {
		*fdp = t->root;
		return 0;
	}
	r = get_dir(t, path, cut - 1, make, &d, err);
	if (r == 0)
		*fdp = d->fd;
	return r;
}

static int make_dir(struct tree *t, int parent, const char *name, const char *path, size_t n,
		    struct error *err)
{
	int r = charge(t, TREE_PAGE, 1, err);

	if (r < 0)
		return r;
	if (mkdirat(parent, name, 0700) == 0)
		return 0;
	if (errno == EEXIST)
		return error_set(err, EEXIST,
				 "%.*s is a file or a link in the archive, and a "
				 "directory in another place of it",
				 (int)n, path);
	return error_errno(err, errno, "make directory %.*s", (int)n, path);
}

/* Gives an entry of the table with its fd open. make: also one that is not there yet. */
static int get_dir(struct tree *t, const char *path, size_t n, bool make, struct dir **dirp,
		   struct error *err)
{
	struct dir *d = find_dir(t, path, n);
	char name[MEMBER_MAX_NAME + 1];
	const char *base;
	int parent, fd, r;

	if (d && d->fd >= 0) {
		*dirp = d;
		return 0;
	}
	if (!d && !make)
		return -ENOENT;
	r = get_parent(t, path, n, make, &parent, &base, err);
	if (r < 0)
		return r;
	memcpy(name, base, (size_t)(path + n - base));
	name[path + n - base] = '\0';
	if (!d) {
		r = make_dir(t, parent, name, path, n, err);
		if (r < 0)
			return r;
		d = insert_dir(t, path, n);
		if (!d)
			return error_set(err, ENOMEM, "out of memory");
	}
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %.*s", (int)n, path);
	keep_open(t, d, fd);
	*dirp = d;
	return 0;
}

int tree_add_dir(struct tree *t, const char *path, const struct tree_meta *meta, struct error *err)
{
	struct dir *d;
	int r;

	if (!*path) {
		t->has_root_meta = true;
		t->root_meta = *meta;
		return 0;
	}
	r = get_dir(t, path, strlen(path), true, &d, err);
	if (r < 0)
		return r;
	d->has_meta = true;
	d->meta = *meta;
	return 0;
}

/* Where path is going to be made. */
static int get_place(struct tree *t, const char *path, int *fdp, const char **basep,
		     struct error *err)
{
	if (!*path)
		return error_set(err, EINVAL,
				 "a member that is no directory stands for the top of the "
				 "archive");
	if (find_dir(t, path, strlen(path)))
		return error_set(err, EISDIR,
				 "%s is a directory in the archive, and something else in "
				 "another place of it",
				 path);
	return get_parent(t, path, strlen(path), true, fdp, basep, err);
}

/* Something of that name is there: it came before, and the last one wins. */
static int make_way(struct tree *t, int dirfd, const char *base, const char *path,
		    struct error *err)
{
	if (unlinkat(dirfd, base, 0) < 0)
		return error_errno(err, errno, "replace %s", path);
	t->counts.replaced++;
	t->counts.files--;
	return 0;
}

int tree_add_symlink(struct tree *t, const char *path, const char *to, const struct tree_meta *meta,
		     struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, meta->mtime };
	const char *base;
	int dirfd, r;

	r = get_place(t, path, &dirfd, &base, err);
	if (r == 0)
		r = charge(t, TREE_PAGE, 1, err);
	if (r < 0)
		return r;
	while (symlinkat(to, dirfd, base) < 0) {
		if (errno != EEXIST)
			return error_errno(err, errno, "make link %s", path);
		r = make_way(t, dirfd, base, path, err);
		if (r < 0)
			return r;
	}
	t->counts.files++;
	utimensat(dirfd, base, times, AT_SYMLINK_NOFOLLOW); /* best effort: not all can */
	return 0;
}

/* Links base to the file to, whose directory is in the table. */
static int link_to(struct tree *t, int dirfd, const char *base, const char *path, const char *to,
		   struct error *err)
{
	struct dir *pinned = NULL;
	const char *to_base, *slash = strrchr(to, '/');
	int to_fd, r;

	if (slash) {
		/* its fd has to outlive the look-up of the other one */
		r = get_dir(t, to, (size_t)(slash - to), false, &pinned, err);
		if (r == -ENOENT)
			return error_set(err, ENOENT,
					 "%s is a hard link to %s, which is not in the "
					 "archive before it",
					 path, to);
		if (r < 0)
			return r;
	}
	to_fd = pinned ? pinned->fd : t->root;
	to_base = slash ? slash + 1 : to;
	if (linkat(to_fd, to_base, dirfd, base, 0) == 0)
		return 0;
	if (errno == ENOENT)
		return error_set(err, ENOENT,
				 "%s is a hard link to %s, which is not in the archive "
				 "before it, or was not selected",
				 path, to);
	return errno == EEXIST ? -EEXIST : error_errno(err, errno, "link %s to %s", path, to);
}

int tree_add_hardlink(struct tree *t, const char *path, const char *to, struct error *err)
{
	struct dir *place = NULL;
	const char *base;
	int dirfd, r;

	if (!strcmp(path, to))
		return 0;
	r = get_place(t, path, &dirfd, &base, err);
	if (r == 0)
		r = charge(t, 0, 1, err);
	if (r < 0)
		return r;
	if (base > path)
		place = find_dir(t, path, (size_t)(base - path - 1));
	if (place)
		place->pinned = true;
	r = link_to(t, dirfd, base, path, to, err);
	if (r == -EEXIST) {
		r = make_way(t, dirfd, base, path, err);
		if (r == 0)
			r = link_to(t, dirfd, base, path, to, err);
	}
	if (place)
		place->pinned = false;
	if (r == 0)
		t->counts.files++;
	return r;
}

int tree_add_file(struct tree *t, const char *path, const struct tree_meta *meta, uint64_t size,
		  bool sparse, int *fdp, struct error *err)
{
	uint64_t rounded = size > UINT64_MAX - TREE_PAGE
				   ? size
				   : (size + TREE_PAGE - 1) / TREE_PAGE * TREE_PAGE;
	_cleanup_(fd_closep) int fd = -1;
	const char *base;
	int dirfd, r;

	r = get_place(t, path, &dirfd, &base, err);
	if (r == 0)
		r = charge(t, sparse ? 0 : rounded, 1, err);
	if (r < 0) {
		error_prefix(err, "write %s", path);
		return r;
	}
	for (;;) {
		fd = openat(dirfd, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    meta->mode & 0777);
		if (fd >= 0)
			break;
		if (errno != EEXIST)
			return error_errno(err, errno, "create %s", path);
		r = make_way(t, dirfd, base, path, err);
		if (r < 0)
			return r;
	}
	if ((sparse || size >= TREE_TRUNCATE_FROM) && ftruncate(fd, (off_t)size) < 0)
		return error_errno(err, errno, "make %s its size", path);
	t->counts.files++;
	*fdp = steal_fd(&fd);
	return 0;
}

int tree_end_file(struct tree *t, int fd, const char *path, const struct tree_meta *meta,
		  struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, meta->mtime };

	if (futimens(fd, times) < 0)
		return error_errno(err, errno, "set the time of %s", path);
	return 0;
}

static int compare_reverse(const void *a, const void *b)
{
	const struct dir *const *x = a, *const *y = b;

	return strcmp((*y)->path, (*x)->path);
}

static int finish_dir(struct tree *t, struct dir *d, struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, d->meta.mtime };
	mode_t mode = d->has_meta ? d->meta.mode & 0777 : 0755;
	int r;

	r = get_dir(t, d->path, strlen(d->path), false, &d, err);
	if (r < 0)
		return r;
	if (fchmod(d->fd, mode) < 0 || (d->has_meta && futimens(d->fd, times) < 0))
		return error_errno(err, errno, "finish directory %s", d->path);
	return 0;
}

int tree_finish(struct tree *t, mode_t *root_modep, struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, t->root_meta.mtime };
	_cleanup_(freep) struct dir **all = calloc(t->n_dirs + 1, sizeof(struct dir *));
	size_t n = 0;
	int r = 0;

	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < t->n_buckets; i++) {
		for (struct dir *d = t->buckets[i]; d; d = d->next)
			all[n++] = d;
	}
	qsort(all, n, sizeof(struct dir *), compare_reverse);
	for (size_t i = 0; i < n && r == 0; i++)
		r = finish_dir(t, all[i], err);
	if (r == 0 && t->has_root_meta && futimens(t->root, times) < 0)
		r = error_errno(err, errno, "set the time of the top directory");
	*root_modep = t->has_root_meta ? t->root_meta.mode & 0777 : 0;
	return r;
}

void tree_get_counts(const struct tree *t, struct tree_counts *counts)
{
	*counts = t->counts;
}
