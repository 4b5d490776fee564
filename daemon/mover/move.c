#include "daemon/mover/move.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/cleanup.h"
#include "common/util/clock.h"
#include "common/util/count.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/memory.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "daemon/engines/copy/link-table.h"
#include "daemon/engines/copy/walk-internal.h"
#include "daemon/mover/chosen.h"
#include "daemon/mover/follow.h"

#define MAX_THREADS 16

/* ---- directories ---- */

struct made_dir {
	int fd; /* the directory in the partial copy */
};

static int get_made(const struct move *m, const struct walk_dir *dir)
{
	return *dir->path ? ((const struct made_dir *)dir->user)->fd : m->root_fd;
}

/* Makes a directory. An existing one was made by an interrupted mover, and may have its final
 * mode. */
static int make_dir(const struct move *m, int above, const char *name, int *fdp)
{
	struct stat st;

	if (m->resumed && fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISDIR(st.st_mode) && rmtree_at(above, name, NULL, NULL) < 0)
		return -EEXIST;
	if (mkdirat(above, name, 0700) < 0 && (errno != EEXIST || !m->resumed))
		return -errno;
	if (m->resumed && fchmodat(above, name, 0700, 0) < 0)
		return -errno;
	*fdp = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *fdp < 0 ? -errno : 0;
}

static int enter(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct move *m = arg;
	struct made_dir *made;
	int r;

	if (!*dir->path)
		return 0;
	made = malloc(sizeof(*made));
	if (!made)
		return error_set(err, ENOMEM, "out of memory");
	made->fd = -1;
	dir->user = made;
	follow_count_dir(m, dir);
	r = make_dir(m, get_made(m, dir->parent), dir->name, &made->fd);
	return r < 0 ? error_errno(err, -r, "make directory %s", dir->path) : 0;
}

/* Removes entries that no longer exist in the source. */
static int remove_others(const struct walk_dir *dir, int made, struct error *err)
{
	_cleanup_(dir_closep) DIR *d = fd_open_dir(made, ".");
	const struct dirent *e;
	struct stat st;
	int r = 0;

	while (d && r == 0 && (errno = 0, e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    fstatat(dir->fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			r = rmtree_at(made, e->d_name, NULL, err);
	return r == 0 && errno ? error_errno(err, errno, "read the copy of %s", dir->path) : r;
}

static int finish_dir(const struct move *m, const struct walk_dir *dir, int fd, struct error *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, dir->st.st_mtim };
	struct stat now;
	int r;

	if (fstat(dir->fd, &now) < 0 || now.st_mtim.tv_sec != dir->st.st_mtim.tv_sec ||
	    now.st_mtim.tv_nsec != dir->st.st_mtim.tv_nsec)
		return error_set(err, ESTALE, "%s changed while it was copied",
				 *dir->path ? dir->path : "the directory");
	r = m->resumed ? remove_others(dir, fd, err) : 0;
	if (r == 0 && *dir->path &&
	    (futimens(fd, times) < 0 || fchmod(fd, (dir->st.st_mode & 0777) | 0500) < 0))
		r = error_errno(err, errno, "finish directory %s", dir->path);
	return r < 0 ? r : record_add(m->record, 'd', &dir->st, NULL, 0, dir->path, err);
}

static void leave(struct walk *w, struct walk_dir *dir, void *arg)
{
	struct made_dir *made = dir->user;
	struct error err = ERROR_INIT;
	const struct move *m = arg;

	if (*dir->path && !made)
		return;
	if (!walk_is_over(w) && finish_dir(m, dir, get_made(m, dir), &err) < 0)
		walk_fail(w, &err);
	if (made)
		fd_closep(&made->fd);
	free(made);
}

/* ---- entries of directories ---- */

static int copy_link(struct move *m, const struct walk_dir *dir, const struct walk_entry *e,
		     const char *path, struct error *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, e->st.st_mtim };
	int to = get_made(m, dir);
	char target[4097];
	ssize_t n = readlinkat(dir->fd, e->name, target, sizeof(target) - 1);

	if (n < 0)
		return error_errno(err, errno, "read link %s", path);
	target[n] = '\0';
	if (m->resumed && rmtree_at(to, e->name, NULL, err) < 0)
		return err->code;
	if (symlinkat(target, to, e->name) < 0)
		return error_errno(err, errno, "make link %s", path);
	utimensat(to, e->name, times, AT_SYMLINK_NOFOLLOW); /* not supported by all file systems */
	atomic_fetch_add(&m->files, 1);
	return record_add(m->record, 'l', &e->st, NULL, 0, path, err);
}

static bool is_wanted(const char *path, void *arg)
{
	struct move *m = arg;

	return !m->chosen || chosen_find(m->chosen, path) != CHOSEN_NOT;
}

/* A link to a file that the pattern names is copied as the file, because staging would read
 * that. */
static bool is_followed(const struct move *m, const struct walk_entry *e, const char *path)
{
	return m->chosen && S_ISLNK(e->st.st_mode) && chosen_find(m->chosen, path) == CHOSEN_ITSELF;
}

/* Copies the target of a link (links=follow). */
static int copy_followed(struct move *m, struct move_file *file, const struct walk_entry *e,
			 const char *path, struct error *err)
{
	if (!S_ISREG(e->st.st_mode)) {
		atomic_fetch_add(&m->n_left_out, 1);
		return 0;
	}
	file->fd = fcntl(e->fd, F_DUPFD_CLOEXEC, 3);
	if (file->fd < 0)
		return error_errno(err, errno, "open %s", path);
	file->name = e->name;
	file->path = file->from_path = path;
	return move_file(m, file, err);
}

static int copy_entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
		      struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct move *m = arg;
	struct move_file file = { .dir = dir, .to = get_made(m, dir), .from = m->base_fd };
	bool follow;

	walk_path(dir, e->name, path);
	follow = is_followed(m, e, path);
	if (e->followed)
		return copy_followed(m, &file, e, path, err);
	if (S_ISLNK(e->st.st_mode) && !follow)
		return copy_link(m, dir, e, path, err);
	if (!S_ISREG(e->st.st_mode) && !follow) {
		atomic_fetch_add(&m->n_left_out, 1);
		return 0;
	}
	file.fd = openat(dir->fd, e->name,
			 (follow ? 0 : O_NOFOLLOW) | O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (file.fd < 0)
		return error_errno(err, errno, "open %s", path);
	(void)fd_set_nonblock(file.fd, false); /* reads wait for a file that is on tape or locked */
	file.name = e->name;
	file.path = file.from_path = path;
	return move_file(m, &file, err);
}

static int unreadable(struct walk *w, const char *path, int errnum, void *arg, struct error *err)
{
	return error_errno(err, errnum, "open %s", path);
}

static int mount_point(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	atomic_fetch_add(&((struct move *)arg)->n_left_out, 1);
	return 0;
}

static const struct walk_ops ops = {
	.wanted = is_wanted,
	.enter = enter,
	.entry = copy_entry,
	.leave = leave,
	.unreadable = unreadable,
	.follow = follow_link,
	.mount_point = mount_point,
};

/* ---- a single file ---- */

struct alone {
	struct work work;
	struct move *move;
	struct move_file file;
};

static void run_alone(struct work *work, void *arg)
{
	struct alone *a = (struct alone *)work;
	struct error err = ERROR_INIT;

	if (move_file(a->move, &a->file, &err) < 0)
		walk_fail(a->move->walk, &err);
}

/* ---- the whole copy ---- */

static uint32_t count_threads(void)
{
	unsigned n = memory_count_cpus();

	return n > MAX_THREADS ? MAX_THREADS : n;
}

static void move_deinit(struct move *m)
{
	walk_free(m->walk);
	record_close(m->record);
	record_table_free(m->base);
	record_table_free(m->old);
	link_table_free(m->links);
	fd_closep(&m->root_fd);
	fd_closep(&m->base_fd);
	place_close(&m->place);
	chosen_free(m->chosen);
	follow_free(m->allowed);
	free(m->top);
	rate_limit_deinit(&m->rate);
}

static int choose(struct move *m, struct error *err)
{
	const char *source = m->order->source;

	m->top = strndup(source, m->order->n_top);
	if (!m->top)
		return error_set(err, ENOMEM, "out of memory");
	return source[m->order->n_top] ? chosen_new(&m->chosen, source, err) : 0;
}

static int open_source(const char *source, struct stat *st, struct error *err)
{
	int fd = open(source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return error_errno(err, errno, "open it");
	(void)fd_set_nonblock(fd, false); /* as above */
	if (fstat(fd, st) == 0 && (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode)))
		return fd;
	close(fd);
	return error_set(err, EINVAL, "is neither a file nor a directory");
}

static const char *get_kind(const struct move *m, const struct stat *st)
{
	if (m->chosen)
		return "set";
	return S_ISDIR(st->st_mode) ? "dir" : "file";
}

/* Opens the existing parts of the copy. */
static int open_copy(struct move *m, const struct stat *st, struct error *err)
{
	int r;

	r = place_open(&m->place, m->order->dir, path_base(m->top), err);
	if (r == 0)
		r = place_lock(&m->place, err);
	if (r == 0)
		r = record_load(&m->base, m->place.fd, PLACE_MANIFEST, 0, err);
	if (r == 0)
		r = record_load(&m->old, m->place.fd, PLACE_JOURNAL, 0, err);
	if (r < 0)
		return r;
	m->resumed = faccessat(m->place.fd, PLACE_JOURNAL, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	if (!m->resumed && rmtree_at(m->place.partial_fd, m->place.name, NULL, err) < 0)
		return err->code;
	if (!S_ISDIR(st->st_mode))
		return 0;
	m->base_fd = openat(m->place.fd, m->place.name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = make_dir(m, m->place.partial_fd, m->place.name, &m->root_fd);
	return r < 0 ? error_errno(err, -r, "make directory %s", m->place.name) : 0;
}

static int begin(struct move *m, const struct stat *st, struct error *err)
{
	int r;

	r = open_copy(m, st, err);
	if (r == 0)
		r = record_open(&m->record, m->place.fd, PLACE_JOURNAL, get_kind(m, st),
				m->order->source, err);
	if (r == 0)
		r = walk_new(&m->walk, &m->io, NULL, &ops, m, err);
	if (r == 0 && link_table_new(&m->links) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	return r;
}

/* Takes over fd. */
static int copy_all(struct move *m, int fd, const struct stat *st, struct error *err)
{
	struct alone alone = {
		.work.run = run_alone,
		.move = m,
		.file = { .fd = fd,
			  .to = m->place.partial_fd,
			  .from = m->place.fd,
			  .name = m->place.name,
			  .path = ".",
			  .from_path = m->place.name },
	};
	int r = 0;

	if (S_ISDIR(st->st_mode)) {
		if (m->order->follow)
			r = follow_new(&m->allowed, m->order, fd, err);
		if (r < 0) {
			close(fd);
			return r;
		}
		if (m->order->follow)
			walk_set_following(m->walk);
		r = walk_add_root(m->walk, fd, "", err);
		if (r < 0)
			return r;
	} else {
		walk_push(m->walk, &alone.work);
	}
	r = walk_run(m->walk, 0, err);
	return r == 0 && m->chosen ? chosen_check_all(m->chosen, err) : r;
}

static int complete(struct move *m, const struct stat *st, struct error *err)
{
	int r;

	r = place_sync(&m->place, err);
	if (r == 0)
		r = record_write_manifest(m->record, m->place.fd, PLACE_MANIFEST, get_kind(m, st),
					  m->order->source, err);
	if (r == 0)
		r = place_publish(&m->place, st, err);
	return r;
}

static void get_result(const struct move *m, struct move_result *result)
{
	*result = (struct move_result){
		.files = atomic_load(&m->files),
		.followed = atomic_load(&m->followed),
		.read_bytes = atomic_load(&m->read_bytes),
		.linked_bytes = atomic_load(&m->linked_bytes),
		.kept_bytes = atomic_load(&m->kept_bytes),
	};
	if (atomic_load(&m->n_left_out))
		fprintf(stderr, "stage-mover: %s: %llu %s left out\n", m->order->source,
			(unsigned long long)atomic_load(&m->n_left_out),
			count_word(atomic_load(&m->n_left_out), "mount, socket, FIFO or device was",
				   "mounts, sockets, FIFOs or devices were"));
}

static void add_progress(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	struct move *m = (struct move *)((char *)io - offsetof(struct move, io));
	uint64_t us = m->order->max_rate ? rate_limit_take(&m->rate, bytes, clock_us()) : 0;

	rate_limit_sleep(us);
}

static const struct stage_io_ops io_ops = { .add_progress = add_progress };

int move_run(const struct move_order *order, struct move_result *result, struct error *err)
{
	_cleanup_(move_deinit) struct move m = {
		.order = order,
		.place = PLACE_NONE,
		.root_fd = -1,
		.base_fd = -1,
		.rate = { .lock = PTHREAD_MUTEX_INITIALIZER, .per_s = order->max_rate },
		.io = { .ops = &io_ops,
			.n_threads = count_threads(),
			.max_readers = order->max_readers },
	};
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int r;

	r = choose(&m, err);
	if (r == 0)
		r = fd = open_source(m.top, &st, err);
	r = r < 0 ? r : begin(&m, &st, err);
	if (r == 0)
		r = copy_all(&m, steal_fd(&fd), &st, err);
	if (r == 0)
		r = complete(&m, &st, err);
	if (r < 0)
		error_prefix(err, "%s", order->source);
	else
		get_result(&m, result);
	return r;
}
