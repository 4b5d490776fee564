/*
 * A tree and the members of a set are counted by the same walk that copies them, so that a slow
 * file system is asked in parallel. What the walk finds unreadable is passed over here: the copy
 * says so.
 */
#include "daemon/worker/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/fd.h"
#include "daemon/worker/copy-file.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/decode.h"
#include "daemon/worker/estimate.h"
#include "daemon/worker/expand.h"
#include "daemon/worker/facts.h"
#include "daemon/worker/filter.h"
#include "daemon/worker/magic.h"
#include "daemon/worker/mend.h"
#include "daemon/worker/shard.h"
#include "daemon/worker/source.h"
#include "daemon/worker/stream.h"
#include "daemon/worker/tar-sample.h"
#include "daemon/worker/walk.h"

#define PROBE_PAGE 4096
#define PROBE_MEMBERS_AT_ONCE 32
#define PROBE_PEEK_SIZE (1024 * 1024) /* of an archive, compressed or not, for its first headers   \
				       */
#define PROBE_MAX_JUMPS 64

/* ---- a file ---- */

static uint64_t round_up(uint64_t n)
{
	return (n + PROBE_PAGE - 1) / PROBE_PAGE * PROBE_PAGE;
}

/* What is in the wrapping, and what its beginning says of all. Bytes that can't be unwrapped are a
 * plain file here. */
static enum facts_format peek_format(int fd, struct tar_sample *sample)
{
	_cleanup_(freep) char *data = malloc(PROBE_PEEK_SIZE), *block = malloc(PROBE_PEEK_SIZE);
	_cleanup_(stream_closep) struct stream *in = NULL;
	struct stream *plain;
	size_t filled = 0, take;
	const void *piece;
	ssize_t n;

	n = data && block ? pread(fd, data, PROBE_PEEK_SIZE, 0) : -1;
	if (n <= 0 || stream_new_memory(&in, data, (size_t)n, 0) < 0)
		return FORMAT_PLAIN;
	if (decode_unfilter(&plain, in, NULL) < 0)
		return FORMAT_PLAIN;
	in = plain;
	while (filled < PROBE_PEEK_SIZE && (n = stream_next(in, &piece, NULL)) > 0) {
		take = (size_t)n < PROBE_PEEK_SIZE - filled ? (size_t)n : PROBE_PEEK_SIZE - filled;
		memcpy(block + filled, piece, take);
		filled += take;
	}
	tar_sample_add(sample, block, filled, 0);
	/* a zip or an image that is compressed once more is a file */
	return magic_get_format(block, filled < MAGIC_SIZE ? filled : MAGIC_SIZE) == FORMAT_TAR
		       ? FORMAT_TAR
		       : FORMAT_PLAIN;
}

/* The headers at the beginning in one read, then a few of those that are far apart. */
static void sample_tar(int fd, struct tar_sample *sample)
{
	_cleanup_(freep) char *data = malloc(PROBE_PEEK_SIZE);
	size_t size = PROBE_PEEK_SIZE;
	uint64_t from;
	ssize_t n;

	for (int i = 0; data && i < PROBE_MAX_JUMPS && !sample->ended && !sample->broken; i++) {
		from = sample->next;
		n = pread(fd, data, size, (off_t)from);
		if (n > 0)
			tar_sample_add(sample, data, (size_t)n, from);
		if (n <= 0 || sample->next == from)
			return;
		size = MAGIC_SIZE;
	}
}

/* The central directory says it all. */
static int probe_zip(const struct source *src, struct facts *facts, struct error *err)
{
	_cleanup_(decode_closep) struct decode *d = NULL;
	struct member m;
	int r;

	if (!decode_is_available())
		return 0;
	if (lseek(src->fd, 0, SEEK_SET) < 0)
		return error_errno(err, errno, "read %s", src->path);
	r = decode_open_zip_file(&d, src->fd, err);
	facts->extract_bytes = facts->extract_files = 0;
	while (r == 0 && (r = decode_next(d, &m, err)) > 0) {
		facts->extract_bytes += round_up(m.size);
		facts->extract_files++;
		r = 0;
	}
	facts->extract_exact = r == 0;
	if (r == -EBADMSG) /* it stands at the end, where copies are cut */
		r = error_set(err, ENODATA, "zip without a sound list of its files at the end");
	return r < 0 ? mend_damage(err, r, src->path, (uint64_t)src->st.st_size) : 0;
}

static int probe_file(struct source *src, struct facts *facts, struct error *err)
{
	unsigned char block[MAGIC_SIZE];
	struct tar_sample sample = { 0 };
	struct estimate e;
	ssize_t n;

	facts->bytes = (uint64_t)src->st.st_size;
	facts->n_files = 1;
	facts->counted = true;
	facts->copy_bytes = copy_file_charge(&src->st);
	facts->copy_files = 1;
	n = pread(src->fd, block, sizeof(block), 0);
	if (n < 0)
		return error_errno(err, errno, "read %s", src->path);
	facts->filter = magic_get_filter(block, (size_t)n);
	facts->format = facts->filter ? peek_format(src->fd, &sample)
				      : magic_get_format(block, (size_t)n);
	if (facts->format == FORMAT_PLAIN)
		return 0;
	facts->n_files = 0;
	e = estimate_unpacked(src->fd, facts->bytes, facts->filter);
	if (facts->format == FORMAT_TAR && !facts->filter)
		sample_tar(src->fd, &sample);
	facts->extract_bytes = round_up(
		facts->format == FORMAT_TAR ? tar_sample_estimate(&sample, e.bytes) : e.bytes);
	facts->extract_exact = facts->format == FORMAT_TAR && sample.ended;
	facts->extract_files = sample.ended ? sample.n_files : 0;
	if (facts->format == FORMAT_SQUASHFS)
		facts->extract_bytes = 3 * facts->bytes;
	return facts->format == FORMAT_ZIP ? probe_zip(src, facts, err) : 0;
}

/* ---- a tree, a set ---- */

struct counting {
	struct ctx *ctx;
	struct source *src;
	struct walk *walk;
	struct filter *filter;
	uint64_t deadline_ms;
	bool keep_names; /* for shard= */
	_Atomic uint64_t bytes, charge, files, dirs;
	atomic_bool cut;
	pthread_mutex_t lock; /* of names */
	struct names names;
};

static void check_limits(struct counting *c)
{
	if (atomic_load(&c->files) > PROBE_MAX_FILES || clock_ms() > c->deadline_ms) {
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
	if (S_ISREG(st->st_mode)) {
		uint64_t charge = copy_file_charge(st);

		atomic_fetch_add(&c->bytes,
				 copy_file_is_sparse(st) ? charge : (uint64_t)st->st_size);
		atomic_fetch_add(&c->charge, charge);
	} else {
		atomic_fetch_add(&c->charge, PROBE_PAGE);
	}
	if ((atomic_fetch_add(&c->files, 1) & 255) == 0)
		check_limits(c);
}

static int count_entry(struct walk *w, struct walk_dir *dir, const char *name,
		       const struct stat *st, void *arg, struct error *err)
{
	char path[WALK_PATH_SIZE];
	struct counting *c = arg;

	if (!S_ISREG(st->st_mode) && !S_ISLNK(st->st_mode))
		return 0;
	add_file(c, st);
	return c->keep_names ? keep_name(c, walk_path(dir, name, path), err) : 0;
}

static int count_dir(struct walk *w, struct walk_dir *dir, void *arg, struct error *err)
{
	struct counting *c = arg;

	atomic_fetch_add(&c->dirs, 1);
	return 0;
}

static const struct walk_ops count_ops = {
	.enter = count_dir,
	.entry = count_entry,
};

struct member_work {
	struct work work;
	struct counting *counting;
	size_t from, to;
};

static int count_member(struct counting *c, const struct source_member *m, struct error *err)
{
	struct stat st;
	int fd;

	if (stat(m->path, &st) < 0)
		return error_errno(err, errno, "%s", m->path);
	if (S_ISREG(st.st_mode))
		add_file(c, &st);
	if (!S_ISDIR(st.st_mode))
		return 0; /* what else it is, the copy refuses */
	fd = open(m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? 0 : walk_add_root(c->walk, fd, m->name, err);
}

static void run_members(struct work *work, void *arg)
{
	struct member_work *m = (struct member_work *)work;
	struct counting *c = m->counting;
	struct error err = ERROR_INIT;

	for (size_t i = m->from; i < m->to && !walk_is_over(c->walk); i++) {
		if (count_member(c, &c->src->members[i], &err) < 0)
			walk_fail(c->walk, &err);
	}
	free(m);
}

static int push_members(struct counting *c, struct error *err)
{
	size_t n = c->src->n_members;

	for (size_t i = 0; i < n; i += PROBE_MEMBERS_AT_ONCE) {
		struct member_work *m = calloc(1, sizeof(*m));

		if (!m)
			return error_set(err, ENOMEM, "out of memory");
		m->work.run = run_members;
		m->counting = c;
		m->from = i;
		m->to = n - i < PROBE_MEMBERS_AT_ONCE ? n : i + PROBE_MEMBERS_AT_ONCE;
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
	if (r == 0)
		return walk_run(c->walk, err);
	walk_stop(c->walk);
	walk_run(c->walk, NULL);
	return r;
}

static int refuse_to_deal(struct error *err)
{
	error_set(err, E2BIG, "shard=: the directory has too many files to deal out");
	return error_mend(err, -E2BIG, "pack it into shards (stagectl pack --shards)");
}

/* The sorted files of this node. Their sizes are taken to be this node's part of the whole. */
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

static int probe_tree(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err)
{
	struct counting c = {
		.ctx = ctx,
		.src = src,
		.deadline_ms = clock_ms() + PROBE_MAX_MS,
		.keep_names = src->kind == SOURCE_DIR && ctx->ds->shard != DATASET_SHARD_ALL,
	};
	int r;

	pthread_mutex_init(&c.lock, NULL);
	r = filter_new(&c.filter, ctx->ds, err);
	if (r == 0)
		r = walk_new(&c.walk, ctx, c.filter, &count_ops, &c, err);
	if (r == 0)
		r = count_source(&c, err);
	facts->bytes = atomic_load(&c.bytes);
	facts->n_files = atomic_load(&c.files);
	facts->copy_bytes = atomic_load(&c.charge) + PROBE_PAGE * atomic_load(&c.dirs);
	facts->copy_files = facts->n_files + atomic_load(&c.dirs);
	facts->counted = !atomic_load(&c.cut);
	if (r == 0 && c.keep_names)
		r = take_share(&c, facts, err);
	names_deinit(&c.names);
	walk_free(c.walk);
	filter_free(c.filter);
	pthread_mutex_destroy(&c.lock);
	return r;
}

int probe_source(struct ctx *ctx, struct source *src, struct facts *facts, struct error *err)
{
	*facts = (struct facts){ .kind = src->kind };
	return src->kind == SOURCE_FILE ? probe_file(src, facts, err)
					: probe_tree(ctx, src, facts, err);
}
