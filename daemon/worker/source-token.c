#include "daemon/worker/source-token.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "common/util/random.h"
#include "daemon/worker/ctx.h"

#define MAX_TOKENS 4096
#define RETRY_MS 300 /* time between tries; a random time of up to the same length is added */

struct tokens {
	int dir;
	char *names[MAX_TOKENS];
	size_t n;
};

static void tokens_deinit(struct tokens *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->names[i]);
	fd_closep(&t->dir);
}

static int tokens_read(struct tokens *t, const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return -errno;
	t->dir = fcntl(dirfd(d), F_DUPFD_CLOEXEC, 0);
	while (t->dir >= 0 && t->n < MAX_TOKENS && (e = readdir(d)))
		if (e->d_name[0] != '.' && (t->names[t->n] = strdup(e->d_name)))
			t->n++;
	closedir(d);
	if (t->dir < 0)
		return -EMFILE;
	return t->n ? 0 : -ENOENT;
}

/* Opens a token for writing if possible, because an exclusive lock on NFS needs that. */
static int open_token(int dir, const char *name)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = openat(dir, name, O_RDWR | flags);
	struct stat st;

	if (fd < 0)
		fd = openat(dir, name, O_RDONLY | flags);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)))
		fd_closep(&fd);
	return fd;
}

/* Takes a token, beginning with a random one. Returns its descriptor; -EWOULDBLOCK: all are taken;
 * or the error of the last one. */
static int take_one(const struct tokens *t)
{
	size_t first = t->n ? random_below(t->n) : 0;
	int r = -ENOENT;

	for (size_t i = 0; i < t->n; i++) {
		_cleanup_(fd_closep) int fd = open_token(t->dir, t->names[(first + i) % t->n]);

		if (fd < 0)
			continue;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return steal_fd(&fd);
		if (r != -EWOULDBLOCK)
			r = -errno;
	}
	return r;
}

/* Waits until a token is free or the time is over. */
static int wait_for_one(struct source_token *token, const struct tokens *t, struct ctx *ctx,
			struct error *err)
{
	const struct policy *p = &ctx->policy;
	const uint64_t start = clock_ms();
	int r = token->fd = take_one(t);

	if (r == -EWOULDBLOCK)
		ctx_warn_for_now(ctx,
				 "it waits for its turn to be read: all %zu tokens of "
				 "[source %s] were taken",
				 t->n, p->rule);
	while (r == -EWOULDBLOCK && clock_ms() - start < p->token_wait_ms) {
		ctx_sleep(ctx, RETRY_MS + random_below(RETRY_MS));
		r = ctx_check(ctx, err);
		if (r < 0)
			return r;
		r = token->fd = take_one(t);
	}
	if (r < 0)
		stage_io_warn(&ctx->io, "it is read without a token: %s",
			      r == -EWOULDBLOCK ? "none was given back within TokenWait="
						: strerror(-r));
	else if (clock_ms() - start > RETRY_MS)
		log_print(LOG_LEVEL_INFO, ctx->ds->name, "waited %llu ms for its turn to read",
			  (unsigned long long)(clock_ms() - start));
	return 0;
}

static int take_token(struct source_token *token, struct ctx *ctx, struct error *err)
{
	_cleanup_(tokens_deinit) struct tokens t = { .dir = -1 };
	const char *path = ctx->policy.token_dir;
	int r = tokens_read(&t, path);

	if (r == 0)
		return wait_for_one(token, &t, ctx, err);
	stage_io_warn(&ctx->io, "it is read without a token: %s: %s", path,
		      r == -ENOENT ? "there are none" : strerror(-r));
	return 0;
}

int source_token_take(struct source_token *t, struct ctx *ctx, struct error *err)
{
	const struct policy *p = &ctx->policy;
	const uint64_t ms = p->jitter_ms ? random_below(p->jitter_ms + 1) : 0;
	int r = 0;

	ctx_set_paused(ctx, true);
	if (ms > 0) {
		log_print(LOG_LEVEL_INFO, ctx->ds->name, "begins after %llu ms (Jitter=)",
			  (unsigned long long)ms);
		ctx_sleep(ctx, ms);
		r = ctx_check(ctx, err);
	}
	if (r == 0 && *p->token_dir)
		r = take_token(t, ctx, err);
	ctx_set_paused(ctx, false);
	return r;
}

void source_token_end(struct source_token *t)
{
	fd_closep(&t->fd);
}
