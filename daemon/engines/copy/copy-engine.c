/*
 * The walk finds entries, copy-dir.c and copy-entry.c copy them, and copy-report.c reports what was
 * left out. Facts that the probe's walk has kept are not read again. A small file is copied by the
 * thread that found it, a big one with the help of other threads.
 */
#include "daemon/engines/copy/copy-engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/dataset/dataset.h"
#include "common/dataset/path-filter.h"
#include "common/util/fd.h"
#include "daemon/engines/copy/copy-internal.h"
#include "daemon/engines/copy/link-table.h"
#include "daemon/engines/copy/stage-io.h"
#include "daemon/engines/copy/walk-kept.h"

#define COPY_MEMBERS_AT_ONCE 32

/* ---- members of a set ---- */

struct member_work {
	struct work work;
	struct copy *copy;
	size_t from, to;
};

static int copy_member(struct copy *c, size_t i, struct error *err)
{
	const struct copy_member m = c->src->ops->get_member(c->src->arg, i);
	struct stat st;
	int fd, r;

	if (path_filter_prunes(c->filter, m.name))
		return 0;
	r = c->src->ops->open_member(c->src->arg, i, &fd, &st, err);
	if (r == -EACCES)
		return copy_unreadable(c->walk, m.path, EACCES, c, err);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return walk_add_root(c->walk, fd, m.name, err);
	if (path_filter_takes(c->filter, m.name))
		return copy_opened(c, NULL, m.name, fd, &st, err);
	close(fd);
	return 0;
}

static void run_members(struct work *work, void *arg)
{
	struct member_work *m = (struct member_work *)work;
	struct error err = ERROR_INIT;

	for (size_t i = m->from; i < m->to && !walk_is_over(m->copy->walk); i++) {
		if (copy_member(m->copy, i, &err) < 0)
			walk_fail(m->copy->walk, &err);
	}
	free(m);
}

static int push_members(struct copy *c, struct error *err)
{
	size_t n = c->src->n_members;

	for (size_t i = 0; i < n; i += COPY_MEMBERS_AT_ONCE) {
		struct member_work *m = calloc(1, sizeof(*m));

		if (!m)
			return error_set(err, ENOMEM, "out of memory");
		m->work.run = run_members;
		m->copy = c;
		m->from = i;
		m->to = n - i < COPY_MEMBERS_AT_ONCE ? n : i + COPY_MEMBERS_AT_ONCE;
		walk_push(c->walk, &m->work);
	}
	return 0;
}

/* ---- the whole copy ---- */

static const struct walk_ops ops = {
	.enter = copy_enter,
	.entry = copy_entry,
	.leave = copy_leave,
	.unreadable = copy_unreadable,
	.follow = copy_follow,
	.mount_point = copy_mount_point,
};

static int push_source(struct copy *c, struct error *err)
{
	int fd;

	if (c->src->fd < 0)
		return push_members(c, err);
	fd = openat(c->src->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %s", c->src->path);
	return walk_add_root(c->walk, fd, "", err);
}

/* Returns the number of threads with which the first walk ended, but at most the number of entries
 * that must be read. */
static size_t count_readers(const struct copy *c)
{
	uint64_t unread = c->src->kept ? walk_kept_get_unread(c->src->kept) : UINT64_MAX;

	return unread < c->src->n_readers ? (size_t)unread : c->src->n_readers;
}

static int copy_all(struct copy *c, struct error *err)
{
	int r;

	r = path_filter_new(&c->filter, c->io->ds, err);
	if (r < 0)
		return r;
	if (link_table_new(&c->links) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = walk_new(&c->walk, c->io, c->filter, &ops, c, err);
	if (r < 0)
		return r;
	if (c->io->ds->follow)
		walk_set_following(c->walk);
	if (c->src->kept)
		walk_set_kept(c->walk, c->src->kept);
	c->lazy = path_filter_has_includes(c->filter) || c->src->is_part;
	r = push_source(c, err);
	if (r < 0)
		walk_stop(c->walk); /* running the stopped walk frees the queued work */
	if (r < 0)
		walk_run(c->walk, 0, NULL);
	else
		r = walk_run(c->walk, count_readers(c), err);
	return r < 0 ? r : copy_report(c, err);
}

int copy_tree(struct stage_io *io, const struct copy_source *src, int root,
	      struct copy_result *result, struct error *err)
{
	struct copy c = { .io = io, .src = src, .root = root };
	int r;

	if (fstat(root, &c.root_st) < 0)
		return error_errno(err, errno, "look at the copy");
	if (pthread_key_create(&c.buffer, free) != 0)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&c.lock, NULL);
	clock_gettime(CLOCK_REALTIME, &c.began);
	r = copy_all(&c, err);
	result->files = atomic_load(&c.files);
	walk_free(c.walk);
	link_table_free(c.links);
	path_filter_free(c.filter);
	pthread_mutex_destroy(&c.lock);
	free(pthread_getspecific(c.buffer)); /* only this thread's; the buffers of other threads
					      * were freed at their end */
	pthread_key_delete(c.buffer);
	return r;
}
