/*
 * Shards OUT-000000.tar, OUT-000001.tar, … of at most the size asked for (a sample that is bigger
 * gets a shard of its own). All are written as *.tmp first and renamed when the last one is
 * complete, the first one last: where OUT-000000.tar is, all are. Where nothing can be locked these
 * names are told apart by node and process.
 */
#include "client/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/output.h"
#include "client/progress-bar.h"
#include "client/tar-writer.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"

#define MAX_SHARDS 1000000

struct shards {
	const struct pack *pack;
	const struct pack_list *list;
	int dirfd;
	unsigned n_shards; /* shards begun so far */
	uint64_t done;	   /* bytes read */
	char *buffer;
	char tmp[96]; /* suffix of the names of incomplete shards */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = 1;
}

static int make_name(char *buf, size_t size, const char *out, unsigned i, const char *suffix)
{
	int n = snprintf(buf, size, "%s-%06u.tar%s", out, i, suffix);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

bool pack_shards_exist(const char *out)
{
	char path[PATH_MAX];

	return make_name(path, sizeof(path), out, 0, "") == 0 && access(path, F_OK) == 0;
}

static bool count(void *arg, size_t n)
{
	struct shards *s = arg;

	s->done += n;
	progress_set(s->pack->progress, "pack", s->done,
		     s->list->size ? (int)((__uint128_t)s->done * 100 / s->list->size) : -1);
	return !interrupted;
}

/* Returns how many files from `first` on fit into one shard: whole groups, and at least one. */
static size_t get_n_files(const struct shards *s, size_t first)
{
	const struct pack_list *l = s->list;
	uint64_t size = 2 * TAR_BLOCK;
	size_t i = first, n;

	while (i < l->n_files) {
		n = pack_list_get_group(l, i);
		for (size_t k = i; k < i + n; k++)
			size += tar_writer_get_cost(l->files[k].path, l->files[k].size,
						    l->files[k].mtime.tv_sec);
		if (i > first && size > s->pack->shard_size)
			break;
		i += n;
	}
	return i - first;
}

static int write_shard(struct shards *s, size_t first, size_t n_files, struct error *err)
{
	_cleanup_(tar_writer_freep) struct tar_writer *w = NULL;
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX];
	int r;

	if (s->n_shards == MAX_SHARDS)
		return error_set(err, E2BIG, "more than %d shards; take a bigger size", MAX_SHARDS);
	if (make_name(path, sizeof(path), s->pack->out, s->n_shards, s->tmp) < 0)
		return error_set_hint(
			err, error_set(err, ENAMETOOLONG, "%s is too long a name", s->pack->out),
			"write to a shorter path");
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return error_errno(err, errno, "create %s", path);
	s->n_shards++;
	r = tar_writer_new(&w, fd);
	for (size_t i = first; i < first + n_files && r == 0; i++)
		r = pack_list_put(&s->list->files[i], w, s->dirfd, s->buffer, count, s, err);
	if (r < 0)
		return r;
	r = tar_writer_end(w);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? error_errno(err, -r, "write %s", path) : 0;
}

static void remove_shards(const struct shards *s)
{
	char path[PATH_MAX];

	for (unsigned i = 0; i < s->n_shards; i++)
		if (make_name(path, sizeof(path), s->pack->out, i, s->tmp) == 0)
			unlink(path);
}

static int rename_shards(const struct shards *s, struct error *err)
{
	char from[PATH_MAX], to[PATH_MAX];

	for (unsigned i = s->n_shards; i-- > 0;) {
		make_name(from, sizeof(from), s->pack->out, i, s->tmp);
		make_name(to, sizeof(to), s->pack->out, i, "");
		if (rename(from, to) < 0)
			return error_errno(err, errno, "rename %s", from);
	}
	return 0;
}

static int write_all(struct shards *s, struct error *err)
{
	size_t n;
	int r;

	for (size_t i = 0; i < s->list->n_files; i += n) {
		n = get_n_files(s, i);
		r = write_shard(s, i, n, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static void set_tmp(struct shards *s)
{
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	if (s->pack->locked)
		strcpy(s->tmp, ".tmp");
	else
		snprintf(s->tmp, sizeof(s->tmp), ".tmp.%s.%d", host, (int)getpid());
}

int pack_shards(const struct pack *p, struct error *err)
{
	struct sigaction act = { .sa_handler = on_signal }, old_int, old_term;
	_cleanup_(pack_list_deinit) struct pack_list list = { .follow = p->follow,
							      .out = p->follow ? p->out : NULL };
	_cleanup_(freep) char *buffer = malloc(PACK_BUFFER);
	_cleanup_(fd_closep) int dirfd = -1;
	struct shards s = { .pack = p, .list = &list, .buffer = buffer };
	int r;

	s.dirfd = dirfd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return error_errno(err, errno, "open %s", p->dir);
	if (!buffer)
		return error_set(err, ENOMEM, "out of memory");
	set_tmp(&s);
	r = pack_list_read(&list, dirfd, err);
	if (r < 0)
		return r;
	if (list.n_files == 0)
		return error_set(err, ENOENT, "%s has no files", p->dir);
	pack_list_tell(&list);
	interrupted = 0;
	sigaction(SIGINT, &act, &old_int);
	sigaction(SIGTERM, &act, &old_term);
	r = write_all(&s, err);
	if (r == 0)
		r = rename_shards(&s, err);
	if (r < 0 && interrupted) /* a call may have failed because of the signal */
		r = error_exit(err, STAGE_EXIT_INTERRUPTED, EINTR, "interrupted");
	if (r < 0)
		remove_shards(&s);
	sigaction(SIGINT, &old_int, NULL);
	sigaction(SIGTERM, &old_term, NULL);
	return r;
}
