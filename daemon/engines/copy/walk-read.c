/*
 * A thread that reads a directory also processes its entries, a buffer of names at a time. It gives
 * a batch of names to others when they are idle. So the entries of a local directory are processed
 * by one thread (two would wait for each other at its lock), those of a directory on a slow file
 * system by all threads, and no more names are held than threads can take. The type that the kernel
 * gives with a name saves looking at directories twice.
 *
 * Directories found are queued, to be read next. If many are queued, the directory that is being
 * read is queued below them, and is continued when they are done.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/dataset/path-filter.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/engines/copy/walk-kept.h"

#define READ_BUFFER (32 << 10)
#define BATCH_MAX 64
#define BATCH_SLOW 4 /* if operations are slow, so that all threads end at about the same time */
#define AHEAD_SLOW 2 /* waiting batches for each thread */
#define MAX_QUEUED_DIRS 1024

/* The kernel's struct, which glibc has from 2.30 on. */
struct entry64 {
	uint64_t ino;
	int64_t off;
	unsigned short size;
	unsigned char type;
	char name[];
};

/* Entries of one directory to examine. size 0: those of an earlier walk, which were examined. */
struct batch_work {
	struct work work;
	struct walk_dir *dir; /* holds a reference */
	size_t n, kept_pos, size;
	char names[]; /* n entries: type, name, NUL; none if size is 0 */
};

struct name {
	const char *name; /* points into the buffer of getdents64() */
	unsigned char type;
};

/* The state of reading a directory. Its names were found and are not processed yet. */
struct reading {
	struct walk *w;
	struct dir_work *d;
	struct walk_dir *dir;
	struct name names[BATCH_MAX];
	size_t n_names, kept_pos, batch;
	struct work *dirs; /* found directories that are not queued yet */
};

static bool is_left_out(const struct walk *w, const struct walk_dir *dir, const char *name)
{
	char path[WALK_PATH_SIZE];

	return w->filter && !path_filter_takes(w->filter, walk_path(dir, name, path));
}

static bool is_wanted(const struct walk *w, const struct walk_dir *dir, const char *name)
{
	char path[WALK_PATH_SIZE];

	return !w->ops->wanted || w->ops->wanted(walk_path(dir, name, path), w->arg);
}

/* ---- directories ---- */

/* Makes the work for a directory. *workp NULL: it is left out. */
static int make_dir_work(struct walk *w, struct walk_dir *parent, const char *name,
			 struct walk_kept_dir *kept, struct dir_work **workp, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct dir_work *d;

	*workp = NULL;
	walk_path(parent, name, path);
	if (parent->depth + 1 > WALK_MAX_DEPTH) {
		error_set(err, ELOOP, "%.200s… is deeper than %d directories", path,
			  WALK_MAX_DEPTH);
		return error_set_hint(err, -ELOOP,
				      "stage what is below, or pack it (stagectl pack)");
	}
	if (w->filter && path_filter_prunes(w->filter, path))
		return 0;
	d = calloc(1, sizeof(*d) + strlen(name) + 1);
	if (!d)
		return walk_out_of_memory(err);
	d->work.run = walk_run_dir;
	d->parent = walk_dir_get(parent);
	d->kept = w->keeping ? walk_kept_add_dir(parent->kept, name) : kept;
	strcpy(d->name, name);
	*workp = d;
	return 0;
}

static int push_dir(struct walk *w, struct walk_dir *parent, const struct walk_entry *e,
		    struct error *err)
{
	struct dir_work *d;
	int r = make_dir_work(w, parent, e->name, NULL, &d, err);

	if (r < 0 || !d)
		return r;
	d->followed = e->followed;
	walk_push(w, &d->work);
	return 0;
}

static int find_dir(struct reading *r, const char *name, struct walk_kept_dir *kept,
		    struct error *err)
{
	struct dir_work *d;
	int ret = make_dir_work(r->w, r->dir, name, kept, &d, err);

	if (ret == 0 && d) {
		d->work.next = r->dirs;
		r->dirs = &d->work;
	}
	return ret;
}

/* ---- entries ---- */

/* Returns true if the failure r of a link may be ignored, if the filter does not take its name. It
 * may not be ignored for a directory, which could contain names that the filter takes. st: status
 * of the target, or of the link if the target does not exist. */
static bool may_be_passed(int r, const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return r == -EPERM || r == -EINVAL || r == -EACCES;
	return S_ISLNK(st->st_mode) && (r == -ENOENT || r == -ELOOP || r == -ENOTDIR);
}

/* Returns true for devices, FIFOs and sockets, which are not opened. */
static bool is_special(const struct stat *st)
{
	return !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode);
}

/* Replaces the link by its target, which is open in e->fd (-1: it is special). Returns 0, -errno,
 * or 1: it is left out. */
static int follow_link(struct walk *w, struct walk_dir *dir, struct walk_entry *e,
		       struct error *err)
{
	char path[WALK_PATH_SIZE];
	int r;

	walk_path(dir, e->name, path);
	if (w->filter && path_filter_prunes(w->filter, path))
		return 1;
	r = w->ops->follow(w, dir, e->name, &e->fd, &e->st, w->arg, err);
	e->followed = r == 0;
	if (r == -EINVAL && is_special(&e->st)) {
		*err = (struct error)ERROR_INIT;
		e->fd = -1;
		return 0;
	}
	if (r < 0 && may_be_passed(r, &e->st) && w->filter && !path_filter_takes(w->filter, path)) {
		*err = (struct error)ERROR_INIT;
		return 1;
	}
	if (r == -EACCES) {
		*err = (struct error)ERROR_INIT;
		r = walk_report_unreadable(w, path, EACCES, err);
		return r < 0 ? r : 1;
	}
	return r;
}

static int do_link(struct walk *w, struct walk_dir *dir, struct walk_entry *e, struct error *err)
{
	_cleanup_(fd_closep) int fd = -1;
	int r = follow_link(w, dir, e, err);

	if (r != 0)
		return r < 0 ? r : 0;
	fd = e->fd;
	if (S_ISDIR(e->st.st_mode))
		return push_dir(w, dir, e, err);
	if (is_left_out(w, dir, e->name) || !w->ops->entry)
		return 0;
	return w->ops->entry(w, dir, e, w->arg, err);
}

static int do_entry(struct walk *w, struct walk_dir *dir, const struct name *n, struct error *err)
{
	struct walk_entry e = { .name = n->name };
	char path[WALK_PATH_SIZE];
	char *data;
	int r;

	r = walk_look(w, dir, n->name, n->type, &e.st, &data);
	if (r < 0) {
		walk_kept_give_up(dir->kept); /* so that the next walk fails in the same way */
		return walk_report_unreadable(w, walk_path(dir, n->name, path), -r, err);
	}
	if (S_ISDIR(e.st.st_mode))
		return push_dir(w, dir, &e, err);
	if (w->following && S_ISLNK(e.st.st_mode))
		return do_link(w, dir, &e, err);
	if (is_left_out(w, dir, n->name)) {
		free(data);
		return 0;
	}
	if (w->keeping)
		walk_kept_add_entry(dir->kept, n->name, &e.st, data);
	return w->ops->entry ? w->ops->entry(w, dir, &e, w->arg, err) : 0;
}

/* Processes n kept entries from pos on. Skips directories and files with content, which the thread
 * that reads the directory processes. */
static void do_kept(struct walk *w, struct walk_dir *dir, size_t pos, size_t n)
{
	struct error err = ERROR_INIT;
	struct walk_kept_dir *child;
	struct walk_entry e;

	while (n > 0 && !walk_is_over(w) && walk_kept_next(dir->kept, &pos, &e, &child)) {
		if (S_ISDIR(e.st.st_mode) || e.data)
			continue;
		n--;
		if (w->ops->entry && w->ops->entry(w, dir, &e, w->arg, &err) < 0)
			walk_fail(w, &err);
	}
}

static bool is_slow(const struct walk *w)
{
	return atomic_load_explicit(&w->slow, memory_order_relaxed);
}

/* Processes names. Returns how many were processed: all, or fewer if operations become slow, so
 * that other threads can take the rest. */
static size_t do_names(struct walk *w, struct walk_dir *dir, const struct name *names, size_t n)
{
	struct error err = ERROR_INIT;
	bool slow = is_slow(w);

	for (size_t i = 0; i < n && !walk_is_over(w); i++) {
		if (do_entry(w, dir, &names[i], &err) < 0)
			walk_fail(w, &err);
		if (!slow && is_slow(w))
			return i + 1;
	}
	return n;
}

/* ---- batches ---- */

static size_t get_batch_size(const struct walk *w)
{
	return is_slow(w) ? BATCH_SLOW : BATCH_MAX;
}

static void run_batch(struct work *work, void *arg);

/* Gives names to other threads. Without memory it returns false: the caller processes them. */
static bool push_names(struct walk *w, struct walk_dir *dir, const struct name *names, size_t n)
{
	struct batch_work *b;
	size_t size = 0;
	char *p;

	for (size_t i = 0; i < n; i++)
		size += strlen(names[i].name) + 2;
	b = malloc(sizeof(*b) + size);
	if (!b)
		return false;
	*b = (struct batch_work){ .work.run = run_batch, .n = n, .size = size };
	b->dir = walk_dir_get(dir);
	p = b->names;
	for (size_t i = 0; i < n; i++) {
		*p++ = (char)names[i].type;
		p = stpcpy(p, names[i].name) + 1;
	}
	walk_push(w, &b->work);
	return true;
}

/* Gives the remaining names of a batch to other threads. One thread would need as long for them as
 * all threads for the rest. */
static void share_out(struct walk *w, struct walk_dir *dir, const struct name *names, size_t n)
{
	size_t k;

	for (size_t i = 0; i < n; i += k) {
		k = n - i < BATCH_SLOW ? n - i : BATCH_SLOW;
		if (!push_names(w, dir, names + i, k))
			k = do_names(w, dir, names + i, k);
	}
}

static void run_batch(struct work *work, void *arg)
{
	struct batch_work *b = (struct batch_work *)work;
	struct name names[BATCH_MAX];
	const char *p = b->names;
	struct walk *w = arg;
	size_t n;

	if (b->size == 0) {
		do_kept(w, b->dir, b->kept_pos, b->n);
	} else {
		for (size_t i = 0; i < b->n; i++, p += strlen(p) + 1) {
			names[i].type = (unsigned char)*p++;
			names[i].name = p;
		}
		n = do_names(w, b->dir, names, b->n);
		share_out(w, b->dir, names + n, b->n - n);
	}
	walk_dir_put(w, b->dir);
	free(b);
}

static bool push_kept(struct reading *r)
{
	struct batch_work *b = malloc(sizeof(*b));

	if (!b)
		return false;
	*b = (struct batch_work){ .work.run = run_batch, .n = r->n_names };
	b->kept_pos = r->kept_pos;
	b->dir = walk_dir_get(r->dir);
	walk_push(r->w, &b->work);
	return true;
}

/* Returns true if other threads can take more batches. */
static bool has_takers(const struct walk *w)
{
	size_t queued = workq_get_queued(w->q);

	if (!is_slow(w))
		return queued < workq_get_waiting(w->q);
	return queued < AHEAD_SLOW * copy_concurrency_get((struct copy_concurrency *)&w->pace);
}

static void flush_names(struct reading *r)
{
	size_t done = 0, n;

	while (done < r->n_names) {
		n = get_batch_size(r->w);
		if (n > r->n_names - done)
			n = r->n_names - done;
		if (!has_takers(r->w) || !push_names(r->w, r->dir, r->names + done, n))
			n = do_names(r->w, r->dir, r->names + done, n);
		done += n;
	}
}

static void flush(struct reading *r, bool seen)
{
	if (!seen)
		flush_names(r);
	else if (r->n_names > 0 && (!has_takers(r->w) || !push_kept(r)))
		do_kept(r->w, r->dir, r->kept_pos, r->n_names);
	r->n_names = 0;
	r->batch = get_batch_size(r->w);
}

/* ---- reading ---- */

/* Returns true if the entry is not a directory. A link may lead to one if links are followed. */
static bool is_known(const struct walk *w, unsigned char type)
{
	return type != DT_UNKNOWN && !(w->following && type == DT_LNK);
}

static int take_names(struct reading *r, const char *buf, size_t size, struct error *err)
{
	const struct entry64 *e;
	int ret = 0;

	for (size_t pos = 0; ret == 0 && pos < size; pos += e->size) {
		e = (const void *)(buf + pos);
		if (!strcmp(e->name, ".") || !strcmp(e->name, "..") ||
		    !is_wanted(r->w, r->dir, e->name))
			continue;
		if (e->type == DT_DIR) {
			ret = find_dir(r, e->name, NULL, err);
			continue;
		}
		if (is_known(r->w, e->type) && is_left_out(r->w, r->dir, e->name))
			continue; /* it need not be examined */
		r->names[r->n_names++] = (struct name){ e->name, e->type };
		if (r->n_names >= r->batch)
			flush(r, false);
	}
	return ret;
}

/* Queues the directories that were found. Returns true if this directory was queued below them, to
 * be continued later. */
static bool push_found(struct reading *r, bool more)
{
	bool later = more && r->dirs && workq_get_queued(r->w->q) > MAX_QUEUED_DIRS;
	struct work *work;

	if (later)
		walk_push(r->w, &r->d->work);
	while ((work = r->dirs)) {
		r->dirs = work->next;
		walk_push(r->w, work);
	}
	return later;
}

/* Reads names from the directory. Returns 0, -errno, or 1: it was queued, to be continued later. */
static int read_names(struct reading *r, struct error *err)
{
	_Alignas(struct entry64) char buf[READ_BUFFER];
	long n = 1;
	int ret = 0;

	while (ret == 0 && n > 0 && !walk_is_over(r->w)) {
		n = syscall(SYS_getdents64, r->dir->fd, buf, sizeof(buf));
		if (n < 0)
			return error_errno(err, errno, "read %s",
					   *r->dir->path ? r->dir->path : ".");
		ret = take_names(r, buf, (size_t)n, err);
		flush(r, false); /* the names are in buf, which is used again */
		if (push_found(r, ret == 0 && n > 0))
			return 1;
	}
	return ret;
}

/* Reads a directory from the entries of an earlier walk. Files whose content was kept need no
 * waiting, so one thread processes them, too. */
static int read_kept(struct reading *r, struct error *err)
{
	size_t pos = r->d->kept_pos, before = pos;
	struct walk_kept_dir *child;
	struct walk_entry e;
	int ret = 0;

	r->kept_pos = pos;
	while (ret == 0 && !walk_is_over(r->w) && walk_kept_next(r->dir->kept, &pos, &e, &child)) {
		if (S_ISDIR(e.st.st_mode))
			ret = find_dir(r, e.name, child, err);
		else if (e.data && r->w->ops->entry)
			ret = r->w->ops->entry(r->w, r->dir, &e, r->w->arg, err);
		else if (!e.data)
			r->n_names++;
		if (r->n_names >= r->batch || pos - before >= READ_BUFFER) {
			flush(r, true);
			before = r->kept_pos = r->d->kept_pos = pos;
			if (push_found(r, ret == 0))
				return 1;
		}
	}
	flush(r, true);
	push_found(r, false);
	return ret;
}

/* Reads the directory. Returns 0, -errno, or 1: it was queued, to be continued later. */
static int read_on(struct walk *w, struct dir_work *d, struct error *err)
{
	struct reading r = { .w = w, .d = d, .dir = d->dir, .batch = BATCH_MAX };
	int ret;

	flush(&r, false); /* sets the size of batches */
	ret = d->dir->kept && !w->keeping ? read_kept(&r, err) : read_names(&r, err);
	if (ret < 0)
		push_found(&r, false); /* frees them, because the walk is over */
	return ret;
}

void walk_run_dir(struct work *work, void *arg)
{
	struct dir_work *d = (struct dir_work *)work;
	struct error err = ERROR_INIT;
	struct walk *w = arg;
	int r = 0;

	if (!d->dir && !walk_is_over(w))
		r = walk_dir_open(w, d, &err);
	if (r == 0 && d->dir && !d->entered && !walk_is_over(w))
		r = walk_dir_enter(w, d, &err);
	if (r == 0 && d->dir && !walk_is_over(w)) {
		r = read_on(w, d, &err);
		if (r == 1)
			return;
	}
	if (r < 0)
		walk_fail(w, &err);
	walk_dir_put(w, d->dir ? d->dir : d->parent);
	free(d);
}
