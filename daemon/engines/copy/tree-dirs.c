/*
 * Directories are in a table by a hash of their path. The hash has a secret key, so nobody can
 * choose paths that are in the same bucket. A directory that is not in the table is made by
 * mkdirat(). If the name exists already, it is a file or a link of the archive, and that is an
 * error. So no link is ever followed, and the components of a path need not be checked again for
 * each file. Directories are never removed: a file does not replace a directory.
 *
 * Some entries have an open descriptor of their directory: the TREE_MAX_OPEN entries that were used
 * last, and those in which other threads work. The table is bounded. When it is full, all its
 * directories get their final modes and times, and the table is emptied. After that, a directory
 * that is not in the table may exist. It is opened without following a link, and keeps its mode and
 * time.
 */
#include "daemon/engines/copy/tree-dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/member-path.h"
#include "common/util/error.h"
#include "common/util/page.h"
#include "common/util/siphash.h"
#include "daemon/engines/copy/stage-io.h"

#define TREE_MAX_OPEN 256
#define TREE_MAX_MEMORY (8u << 20) /* of the table */
#define TREE_BUCKETS 16384
#define TREE_WORK_MODE 0700

struct tree_dirs {
	int root;
	struct stage_io *io;
	tree_settle_fn settle;
	void *settle_arg;
	size_t n_dirs, memory;
	bool forgot;			      /* the table was emptied, so it may lack
					       * directories that exist */
	struct tree_dir *open[TREE_MAX_OPEN]; /* the next place is reused in turn */
	size_t next_open;
	struct tree_dir *top; /* the root; it is not in the table */
	struct siphash_key key;
	struct tree_dir *buckets[TREE_BUCKETS];
};

static void settle_nothing(void *arg, const char *path, size_t n)
{
}

int tree_dirs_new(struct tree_dirs **tp, int root, struct stage_io *io, struct error *err)
{
	struct tree_dirs *t = calloc(1, sizeof(*t));
	int r;

	if (t)
		t->top = calloc(1, sizeof(*t->top) + 1);
	if (!t || !t->top) {
		free(t);
		return error_set(err, ENOMEM, "out of memory");
	}
	r = siphash_key_init(&t->key);
	if (r < 0) {
		tree_dirs_free(t);
		return error_errno(err, -r, "make a key for the table of directories");
	}
	t->root = t->top->fd = root;
	t->io = io;
	t->settle = settle_nothing;
	*tp = t;
	return 0;
}

void tree_dirs_set_settle(struct tree_dirs *t, tree_settle_fn settle, void *arg)
{
	t->settle = settle ? settle : settle_nothing;
	t->settle_arg = arg;
}

/* Removes all directories from the table. */
static void forget(struct tree_dirs *t)
{
	struct tree_dir *d, *next;

	for (size_t i = 0; i < TREE_BUCKETS; i++) {
		for (d = t->buckets[i]; d; d = next) {
			next = d->next;
			fd_closep(&d->fd);
			free(d);
		}
		t->buckets[i] = NULL;
	}
	memset(t->open, 0, sizeof(t->open));
	t->n_dirs = t->memory = 0;
}

void tree_dirs_free(struct tree_dirs *t)
{
	if (!t)
		return;
	forget(t);
	free(t->top);
	free(t);
}

static struct tree_dir *find_dir(const struct tree_dirs *t, const char *path, size_t n)
{
	uint64_t h = siphash(&t->key, path, n);
	struct tree_dir *d = t->buckets[h % TREE_BUCKETS];

	while (d && (d->hash != h || strncmp(d->path, path, n) || d->path[n]))
		d = d->next;
	return d;
}

bool tree_dirs_has(const struct tree_dirs *t, const char *path)
{
	return find_dir(t, path, strlen(path)) != NULL;
}

static struct tree_dir *insert_dir(struct tree_dirs *t, const char *path, size_t n)
{
	struct tree_dir *d = calloc(1, sizeof(*d) + n + 1), **bucket;

	if (!d)
		return NULL;
	memcpy(d->path, path, n);
	d->hash = siphash(&t->key, path, n);
	d->fd = -1;
	t->n_dirs++;
	t->memory += sizeof(*d) + n + 1;
	bucket = &t->buckets[d->hash % TREE_BUCKETS];
	d->next = *bucket;
	*bucket = d;
	return d;
}

static bool is_pinned(const struct tree_dir *d)
{
	return atomic_load_explicit(&d->n_pins, memory_order_acquire) > 0;
}

/* Stores fd in d and puts d into the ring of open directories. The directory that had this place is
 * closed. */
static void keep_open(struct tree_dirs *t, struct tree_dir *d, int fd)
{
	size_t tries = 0;
	struct tree_dir *old;

	while ((old = t->open[t->next_open]) && is_pinned(old)) {
		if (++tries == TREE_MAX_OPEN) { /* all are pinned */
			t->settle(t->settle_arg, NULL, 0);
			tries = 0;
		}
		t->next_open = (t->next_open + 1) % TREE_MAX_OPEN;
	}
	if (old)
		fd_closep(&old->fd);
	d->fd = fd;
	d->slot = t->next_open;
	t->open[t->next_open] = d;
	t->next_open = (t->next_open + 1) % TREE_MAX_OPEN;
}

static int get_dir(struct tree_dirs *t, const char *path, size_t n, bool make,
		   struct tree_dir **dirp, struct error *err);

/* Gets the parent of path[0..n), pinned, and the last component. */
static int get_parent(struct tree_dirs *t, const char *path, size_t n, bool make,
		      struct tree_dir **parentp, char name[static MEMBER_MAX_NAME + 1],
		      struct error *err)
{
	size_t cut = n;

	while (cut > 0 && path[cut - 1] != '/')
		cut--;
	memcpy(name, path + cut, n - cut);
	name[n - cut] = '\0';
	return get_dir(t, path, cut > 0 ? cut - 1 : 0, make, parentp, err);
}

static int make_dir(struct tree_dirs *t, int parent, const char *name, const char *path, size_t n,
		    struct error *err)
{
	int r = stage_io_charge(t->io, page_get_size(), 1, err);

	if (r < 0)
		return r;
	t->settle(t->settle_arg, path, n);
	if (mkdirat(parent, name, TREE_WORK_MODE) == 0)
		return 0;
	if (errno == EEXIST)
		return error_set(err, EEXIST,
				 "%.*s is a file or a link in the archive, and a "
				 "directory in another place of it",
				 (int)n, path);
	return error_errno(err, errno, "make directory %.*s", (int)n, path);
}

static int open_dir(int parent, const char *name)
{
	return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Opens a directory that was finished and removed from the table. *meta: its mode and time, which
 * it must get again. Returns 0 or -errno. */
static int reopen_forgotten(int parent, const char *name, int *fdp, struct tree_meta *meta)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	/* a directory that its mode forbids to open needs another mode first */
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if ((st.st_mode & TREE_WORK_MODE) != TREE_WORK_MODE &&
	    fchmodat(parent, name, TREE_WORK_MODE, 0) < 0)
		return -errno;
	fd = open_dir(parent, name);
	if (fd < 0)
		return -errno;
	*meta = (struct tree_meta){ .mode = st.st_mode & 0777, .mtime = st.st_mtim };
	*fdp = steal_fd(&fd);
	return 0;
}

/* Adds a directory that is not in the table, and makes it if it does not exist. */
static int add_dir(struct tree_dirs *t, int parent, const char *name, const char *path, size_t n,
		   bool make, struct tree_dir **dirp, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct tree_meta meta;
	struct tree_dir *d;
	bool found;
	int r = t->forgot ? reopen_forgotten(parent, name, &fd, &meta) : -ENOENT;

	found = r == 0;
	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return error_errno(err, -r, "open %.*s", (int)n, path);
	if (!found && !make)
		return -ENOENT;
	if (!found) {
		r = make_dir(t, parent, name, path, n, err);
		if (r < 0)
			return r;
		fd = open_dir(parent, name);
	}
	if (fd < 0)
		return error_errno(err, errno, "open %.*s", (int)n, path);
	d = insert_dir(t, path, n);
	if (!d)
		return error_set(err, ENOMEM, "out of memory");
	if (found)
		tree_dir_set_meta(d, &meta);
	keep_open(t, d, steal_fd(&fd));
	*dirp = d;
	return 0;
}

/* Opens a directory again if it is in the table (*dirp). Otherwise adds it. */
static int open_or_add(struct tree_dirs *t, const char *path, size_t n, bool make,
		       struct tree_dir **dirp, struct error *err)
{
	char name[MEMBER_MAX_NAME + 1];
	struct tree_dir *parent;
	int fd, r;

	r = get_parent(t, path, n, make, &parent, name, err);
	if (r < 0)
		return r;
	if (!*dirp) {
		r = add_dir(t, parent->fd, name, path, n, make, dirp, err);
	} else {
		fd = open_dir(parent->fd, name);
		if (fd < 0)
			r = error_errno(err, errno, "open %.*s", (int)n, path);
		else
			keep_open(t, *dirp, fd);
	}
	tree_dir_unpin(parent);
	return r;
}

static int get_dir(struct tree_dirs *t, const char *path, size_t n, bool make,
		   struct tree_dir **dirp, struct error *err)
{
	struct tree_dir *d = n == 0 ? t->top : find_dir(t, path, n);
	int r = 0;

	if (!d || d->fd < 0)
		r = open_or_add(t, path, n, make, &d, err);
	if (r < 0)
		return r;
	atomic_fetch_add_explicit(&d->n_pins, 1, memory_order_relaxed);
	*dirp = d;
	return 0;
}

void tree_dir_set_meta(struct tree_dir *d, const struct tree_meta *meta)
{
	d->has_meta = true;
	d->meta = *meta;
}

/* ---- the end ---- */

static int compare_reverse(const void *a, const void *b)
{
	const struct tree_dir *const *x = a, *const *y = b;

	return strcmp((*y)->path, (*x)->path);
}

static int finish_dir(struct tree_dir *d, struct error *err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, d->meta.mtime };
	mode_t mode = d->has_meta ? d->meta.mode & 0777 : 0755;

	if (fchmod(d->fd, mode) < 0 || (d->has_meta && futimens(d->fd, times) < 0))
		return error_errno(err, errno, "finish directory %s", d->path);
	return 0;
}

static void remove_dir(struct tree_dirs *t, struct tree_dir *d)
{
	struct tree_dir **p = &t->buckets[d->hash % TREE_BUCKETS];

	while (*p != d)
		p = &(*p)->next;
	*p = d->next;
	if (d->fd >= 0)
		t->open[d->slot] = NULL;
	fd_closep(&d->fd);
	t->n_dirs--;
	t->memory -= sizeof(*d) + strlen(d->path) + 1;
	free(d);
}

/* Finishes the directories that are in the table now. This may add their parents to the table. */
static int finish_round(struct tree_dirs *t, struct error *err)
{
	_cleanup_(freep) struct tree_dir **all = calloc(t->n_dirs, sizeof(*all));
	struct tree_dir *d;
	size_t n = 0;
	int r = 0;

	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < TREE_BUCKETS; i++) {
		for (d = t->buckets[i]; d; d = d->next)
			all[n++] = d;
	}
	qsort(all, n, sizeof(*all), compare_reverse);
	for (size_t i = 0; i < n && r == 0; i++) {
		r = get_dir(t, all[i]->path, strlen(all[i]->path), false, &d, err);
		if (r < 0)
			break;
		r = finish_dir(d, err);
		tree_dir_unpin(d);
		remove_dir(t, d);
	}
	return r;
}

static int finish_all(struct tree_dirs *t, struct error *err)
{
	int r = 0;

	while (t->n_dirs > 0 && r == 0)
		r = finish_round(t, err);
	return r;
}

static bool any_pinned(const struct tree_dirs *t)
{
	for (size_t i = 0; i < TREE_MAX_OPEN; i++) {
		if (t->open[i] && is_pinned(t->open[i]))
			return true;
	}
	return false;
}

/* Empties the table if it is full, unless the caller has pinned a directory. */
static int bound_memory(struct tree_dirs *t, struct error *err)
{
	if (t->memory < TREE_MAX_MEMORY)
		return 0;
	t->settle(t->settle_arg, NULL, 0);
	if (any_pinned(t))
		return 0;
	t->forgot = true;
	return finish_all(t, err);
}

int tree_dirs_get(struct tree_dirs *t, const char *path, size_t n, bool make,
		  struct tree_dir **dirp, struct error *err)
{
	int r = bound_memory(t, err);

	return r < 0 ? r : get_dir(t, path, n, make, dirp, err);
}

int tree_dirs_finish(struct tree_dirs *t, mode_t *root_modep, struct error *err)
{
	const struct tree_dir *top = t->top;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, top->meta.mtime };
	int r = finish_all(t, err);

	t->forgot = true;
	if (r == 0 && top->has_meta && futimens(t->root, times) < 0)
		r = error_errno(err, errno, "set the time of the top directory");
	*root_modep = top->has_meta ? top->meta.mode & 0777 : 0;
	return r;
}
