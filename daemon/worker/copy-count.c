/*
 * The walk that copies also counts, so the operations on a slow file system run in parallel. A tree
 * is walked twice only if its names and sizes need more memory than WALK_KEPT_MAX.
 */
#include "daemon/worker/copy-count.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/dataset/expand.h"
#include "common/dataset/facts.h"
#include "common/dataset/path-filter.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/page.h"
#include "common/util/path.h"
#include "daemon/engines/copy/copy-file.h"
#include "daemon/engines/copy/open-allowed.h"
#include "daemon/engines/copy/tree-fingerprint.h"
#include "daemon/engines/copy/walk-kept.h"
#include "daemon/engines/copy/walk.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"

#define COUNT_MEMBERS_AT_ONCE 32

struct counting {
	struct ctx *ctx;
	struct source *src;
	struct walk *walk;
	struct path_filter *filter;
	uint64_t deadline_ms;
	bool keep_names; /* shard= needs the names */
	_Atomic uint64_t bytes, charge, files, dirs;
	_Atomic uint64_t print;
	bool needs_print; /* keep=, and a copy that nodes share, need the fingerprint */
	atomic_bool cut;
	bool look_at_links;
	pthread_mutex_t lock; /* protects the fields below */
	struct names names;
	uint64_t n_links_out;
	char link_out[FACTS_LINK_SIZE];
	size_t n_missing, first_missing; /* number and lowest index of missing members of a set */
};

static void check_limits(struct counting *c)
{
	if (atomic_load(&c->files) > COPY_COUNT_MAX_FILES || clock_ms() > c->deadline_ms) {
		atomic_store(&c->cut, true);
		walk_stop(c->walk);
	}
}

static int keep_name(struct counting *c, const char *path, struct error *err)
{
	int r;

	pthread_mutex_lock(&c->lock);
	r = names_add(&c->names, path, strlen(path));
	pthread_mutex_unlock(&c->lock);
	return r < 0 ? error_errno(err, -r, "list %s", c->src->path) : 0;
}

static void add_file(struct counting *c, const struct stat *st)
{
	ctx_add_progress(c->ctx, 0, 0);
	if (S_ISREG(st->st_mode)) {
		uint64_t charge = copy_file_charge(st);

		atomic_fetch_add(&c->bytes,
				 copy_file_is_sparse(st) ? charge : (uint64_t)st->st_size);
		/* A file with several names is charged once, as if all names were in the tree.
		 * With follow, this does not hold: the other names of a linked file are mostly
		 * outside. */
		if (!c->ctx->ds->follow)
			charge = (charge + st->st_nlink - 1) / st->st_nlink;
		atomic_fetch_add(&c->charge, charge);
	} else {
		atomic_fetch_add(&c->charge, page_get_size());
	}
	if ((atomic_fetch_add(&c->files, 1) & 255) == 0)
		check_limits(c);
}

/* Counts a link that leads out of the tree. A link that cannot be read is ignored here; the copy
 * reports it. */
static void count_link(struct counting *c, struct walk_dir *dir, const char *name)
{
	char to[PATH_MAX], path[WALK_PATH_SIZE];
	ssize_t n = readlinkat(dir->fd, name, to, sizeof(to) - 1);

	to[n < 0 ? 0 : n] = '\0';
	if (!path_leads_out(dir->path, to))
		return;
	pthread_mutex_lock(&c->lock);
	if (c->n_links_out++ == 0)
		facts_print_link(walk_path(dir, name, path), to, c->link_out);
	pthread_mutex_unlock(&c->lock);
}

static int count_entry(struct walk *w, struct walk_dir *dir, const struct walk_entry *e, void *arg,
		       struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct counting *c = arg;
	struct stat st = e->st;

	if (!S_ISREG(e->st.st_mode) && !S_ISLNK(e->st.st_mode))
		return 0;
	if (e->followed && e->fd >= 0)
		copy_file_look_for_holes(e->fd, &st);
	else
		copy_file_look_for_holes_at(dir->fd, e->name, &st);
	add_file(c, &st);
	if (c->look_at_links && S_ISLNK(e->st.st_mode))
		count_link(c, dir, e->name);
	if (c->needs_print)
		atomic_fetch_add(&c->print,
				 tree_fingerprint(walk_path(dir, e->name, path), &e->st));
	return c->keep_names ? keep_name(c, walk_path(dir, e->name, path), err) : 0;
}

static int count_dir(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct counting *c = arg;

	atomic_fetch_add(&c->dirs, 1);
	ctx_add_progress(c->ctx, 0, 0);
	check_limits(c); /* also here, because a tree may have no files */
	if (c->needs_print)
		atomic_fetch_add(&c->print, tree_fingerprint(dir->path, &dir->st));
	return 0;
}

static int count_follow(struct walk *w, struct walk_dir *dir, const char *name, int *fdp,
			struct stat *st, void *arg, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct counting *c = arg;
	const struct allowed a = source_get_allowed(c->src);

	walk_path(dir, name, path);
	return allowed_open_link(&a, walk_root(dir)->fd, dir->fd, name, path, fdp, st, err);
}

static const struct walk_ops count_ops = {
	.enter = count_dir,
	.entry = count_entry,
	.follow = count_follow,
};

struct member_work {
	struct work work;
	struct counting *counting;
	size_t from, to;
};

/* Counts a missing member. Of many, the error message names only the first. */
static void add_missing(struct counting *c, size_t i)
{
	pthread_mutex_lock(&c->lock);
	if (c->n_missing++ == 0 || i < c->first_missing)
		c->first_missing = i;
	pthread_mutex_unlock(&c->lock);
}

static int refuse_missing(const struct counting *c, struct error *err)
{
	const char *path = c->src->members[c->first_missing].path;
	char how[ERROR_MAX_SIZE / 2];
	int r;

	error_set(err, ENOENT, "%s: No such file or directory", path);
	r = allowed_refuse_missing(path, -ENOENT, err);
	if (c->n_missing > 1 && err) {
		snprintf(how, sizeof(how), "%.500s", err->text);
		error_set(err, ENOENT, "%zu of %zu files of the set are not there, the first is %s",
			  c->n_missing, c->src->n_members, how);
	}
	if (c->ctx->ds->scheme == DATASET_SCHEME_LIST)
		return error_set_hint(err, r,
				      "check the list: a line is a path without ~, variables, "
				      "patterns, quotes, comments, or blanks around it");
	return r;
}

static int count_member(struct counting *c, size_t i, struct error *err)
{
	const struct source_member *m = &c->src->members[i];
	struct stat st;
	int fd, r;

	if (stat(m->path, &st) < 0) {
		r = allowed_refuse_missing(m->path, error_errno(err, errno, "%s", m->path), err);
		if (r == -ENOENT)
			add_missing(c, i);
		return r == -ENOENT ? 0 : r;
	}
	ctx_add_progress(c->ctx, 0, 0);
	if (S_ISDIR(st.st_mode) ? path_filter_prunes(c->filter, m->name)
				: !path_filter_takes(c->filter, m->name))
		return 0;
	if (S_ISREG(st.st_mode)) {
		copy_file_look_for_holes_at(AT_FDCWD, m->path, &st);
		add_file(c, &st);
	}
	if (c->needs_print)
		atomic_fetch_add(&c->print, tree_fingerprint(m->path, &st));
	if (!S_ISDIR(st.st_mode))
		return 0; /* the copy refuses other kinds */
	fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? 0 : walk_add_root(c->walk, fd, m->name, err);
}

static void run_members(struct work *work, void *arg)
{
	struct member_work *m = (struct member_work *)work;
	struct counting *c = m->counting;
	struct error err = ERROR_INIT;

	for (size_t i = m->from; i < m->to && !walk_is_over(c->walk); i++) {
		if (count_member(c, i, &err) < 0)
			walk_fail(c->walk, &err);
	}
	free(m);
}

static int push_members(struct counting *c, struct error *err)
{
	size_t n = c->src->n_members;

	for (size_t i = 0; i < n; i += COUNT_MEMBERS_AT_ONCE) {
		struct member_work *m = calloc(1, sizeof(*m));

		if (!m)
			return error_set(err, ENOMEM, "out of memory");
		m->work.run = run_members;
		m->counting = c;
		m->from = i;
		m->to = n - i < COUNT_MEMBERS_AT_ONCE ? n : i + COUNT_MEMBERS_AT_ONCE;
		walk_push(c->walk, &m->work);
	}
	return 0;
}

static int count_source(struct counting *c, struct error *err)
{
	int fd, r;

	if (c->src->kind == SOURCE_SET) {
		r = push_members(c, err);
	} else {
		fd = openat(c->src->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			return error_errno(err, errno, "open %s", c->src->path);
		r = walk_add_root(c->walk, fd, "", err);
	}
	if (r < 0) {
		walk_stop(c->walk);
		walk_run(c->walk, 0, NULL);
		return r;
	}
	r = walk_run(c->walk, 0, err);
	c->src->n_readers = walk_get_threads(c->walk);
	return r == 0 && c->n_missing > 0 ? refuse_missing(c, err) : r;
}

static int refuse_to_deal(struct error *err)
{
	error_set(err, E2BIG, "shard=: the directory has too many files to deal out");
	return error_set_hint(err, -E2BIG, "pack it into shards (stagectl pack --shards)");
}

/* Selects the sorted files of this node, and scales the sizes to its share of the files. */
static int take_share(struct counting *c, struct facts *facts, struct error *err)
{
	struct names *names = &c->names;
	struct shard shard;
	size_t n = 0;
	int r;

	if (!facts->counted)
		return refuse_to_deal(err);
	names_sort(names);
	r = shard_init(&shard, c->ctx, names->n, err);
	if (r < 0)
		return r;
	c->src->taken = calloc(names->n + 1, sizeof(char *));
	if (!c->src->taken)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < names->n; i++) {
		if (shard_takes(&shard, i))
			c->src->taken[n++] = steal_ptr(names->v[i]);
	}
	c->src->n_taken = n;
	if (names->n > 0) {
		facts->bytes = facts->bytes / names->n * n;
		facts->copy_bytes = facts->copy_bytes / names->n * n;
	}
	facts->n_files = facts->copy_files = n;
	return 0;
}

/* Returns whether the directory has no entry that exclude= could have left out. */
static bool is_empty(const struct source *src)
{
	int fd = openat(src->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int n = 0;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && readdir(dir) && n <= 2)
		n++;
	if (dir)
		closedir(dir);
	return n <= 2; /* "." and ".." */
}

/* Refuses a selection that leaves nothing, as for an archive, because the pattern is probably
 * wrong. Files that are dealt out (shard=) are an exception: a node may get none of them. */
static int check_selected(const struct counting *c, struct error *err)
{
	const struct dataset *ds = c->ctx->ds;
	bool is_dir = c->src->kind == SOURCE_DIR;
	uint64_t n_dirs = atomic_load(&c->dirs);

	if ((!ds->n_include && !ds->n_exclude) || atomic_load(&c->cut) ||
	    atomic_load(&c->files) > 0 || (!is_dir && ds->shard != DATASET_SHARD_ALL) ||
	    (!ds->n_include && (n_dirs > is_dir || (is_dir && is_empty(c->src)))))
		return 0;
	error_set(err, ENOENT, "%s: nothing in the %s fits what was selected", c->src->path,
		  is_dir ? "directory" : "set");
	return error_set_hint(err, -ENOENT, "compare subdir=, include= and exclude= with %s",
			      is_dir ? "find DIR" : "the names of its files (ls)");
}

/* Returns whether the tree needs a fingerprint, which identifies a kept copy or one that nodes
 * share. */
static bool needs_fingerprint(const struct ctx *ctx)
{
	const char *dest = ctx->ds->dest;

	return ctx->ds->keep_ms || (ctx->policy.n_nodes > 1 && dest && strcmp(dest, "auto"));
}

int copy_count(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err)
{
	struct counting c = {
		.ctx = ctx,
		.src = src,
		.deadline_ms = clock_ms() + COPY_COUNT_MAX_MS,
		.needs_print = needs_fingerprint(ctx),
		.look_at_links = ctx->plan_only || ctx->ds->keep_ms,
		.keep_names = src->kind == SOURCE_DIR && ctx->ds->shard != DATASET_SHARD_ALL,
	};
	int r;

	pthread_mutex_init(&c.lock, NULL);
	r = path_filter_new(&c.filter, ctx->ds, err);
	if (r == 0)
		r = walk_new(&c.walk, &ctx->io, c.filter, &count_ops, &c, err);
	if (r == 0 && ctx->ds->follow)
		walk_set_following(c.walk);
	else if (r == 0 && src->kind == SOURCE_DIR && walk_kept_new(&src->kept, WALK_KEPT_MAX) == 0)
		walk_set_keeping(c.walk, src->kept);
	if (r == 0)
		r = count_source(&c, err);
	if (r == 0)
		r = check_selected(&c, err);
	facts->bytes = atomic_load(&c.bytes);
	facts->n_files = atomic_load(&c.files);
	facts->copy_bytes = atomic_load(&c.charge) + page_get_size() * atomic_load(&c.dirs);
	facts->copy_files = facts->n_files + atomic_load(&c.dirs);
	facts->print = atomic_load(&c.print);
	facts->counted = !atomic_load(&c.cut);
	facts->n_links_out = c.n_links_out;
	strcpy(facts->link_out, c.link_out);
	if (r == 0 && c.keep_names)
		r = take_share(&c, facts, err);
	names_deinit(&c.names);
	walk_free(c.walk);
	path_filter_free(c.filter);
	pthread_mutex_destroy(&c.lock);
	return r;
}
