#include "daemon/worker/job-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/protocol/manifest.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "common/util/path.h"
#include "common/util/rmtree.h"
#include "common/util/strutil.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/job-copy-place.h"
#include "daemon/worker/job-copy-record.h"
#include "daemon/worker/keep-use.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/target.h"

#define DATA "data"
#define BEAT_MS 1000
#define EMPTY_MS 10000 /* time that a record may be without its first content */
#define LOOK_MIN_MS 50
#define LOOK_MAX_MS 2000

struct job_copy {
	struct ctx *ctx;
	int fd;	    /* of the dataset's directory */
	char *path; /* path of the data */
	struct job_copy_record record;
	bool making;

	pthread_t thread; /* writes the record while the copy is made */
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop;
};

/* Returns whether the record still names this node as the maker. Another node may have taken
 * over. */
static bool is_mine(const struct job_copy *c)
{
	struct job_copy_record now;
	int r = job_copy_record_read(c->fd, JOB_COPY_STATE, &now);

	return r == -EAGAIN || (r == 0 && !strcmp(now.maker, c->ctx->node));
}

/* Writes this node's record. Returns 0 or -errno; -ESTALE: another node makes the copy now. */
static int publish(struct job_copy *c, const char *state)
{
	_cleanup_(fd_closep) int fd = openat(c->fd, JOB_COPY_STATE,
					     O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (!is_mine(c))
		return -ESTALE;
	strcpy(c->record.state, state);
	c->record.beat++;
	return job_copy_record_write(fd, &c->record);
}

/* --- the place -------------------------------------------------------------------------------- */

/* Returns a text about what the copy is made from and how. Two nodes share a copy only if their
 * texts are the same. */
static char *make_key(const struct ctx *ctx, const struct source *src, const struct facts *facts,
		      const struct plan *plan)
{
	char *text = NULL;

	if (!src->is_remote)
		return keep_make_key(ctx, src, facts, plan);
	return dataset_to_string(ctx->ds, &text) < 0 ? NULL : text;
}

/* Takes a lease; it is recorded before it is made. */
static int take_place(struct job_copy *c, const char *job_dir, const char *dir, struct error *err)
{
	_cleanup_(freep) char *lease = NULL;
	int r;

	lease = strutil_printf("%s/" MANIFEST_LEASE_PREFIX "%s", dir, c->ctx->node);
	if (!lease)
		return error_set(err, ENOMEM, "out of memory");
	r = ctx_record(c->ctx, MANIFEST_LEASE, lease, err);
	if (r < 0)
		return r;
	r = job_copy_open_leased(job_dir, path_base(dir), c->ctx->node, &c->fd);
	if (r == -EPERM)
		return error_set(err, EPERM, "%s is there and is not the job's alone; remove it",
				 job_dir);
	return r < 0 ? error_errno(err, -r, "make %s", dir) : 0;
}

/* --- the node that makes it ------------------------------------------------------------------- */

static void *beat(void *arg)
{
	struct job_copy *c = arg;
	struct timespec until;
	uint64_t bytes, files;

	pthread_mutex_lock(&c->lock);
	while (!c->stop) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += BEAT_MS / 1000;
		if (pthread_cond_timedwait(&c->wake, &c->lock, &until) != ETIMEDOUT)
			continue;
		ctx_get_charged(c->ctx, &bytes, &files);
		c->record.bytes = bytes;
		c->record.files = files;
		/* If another node has taken over, job_copy_put() reports it. */
		(void)publish(c, "making");
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int begin(struct job_copy *c)
{
	pthread_condattr_t attr;
	int r;

	c->record = (struct job_copy_record){ .beat = c->record.beat };
	snprintf(c->record.maker, sizeof(c->record.maker), "%s", c->ctx->node);
	c->making = true;
	r = publish(c, "making");
	if (r < 0)
		return r;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->wake, &attr);
	pthread_condattr_destroy(&attr);
	r = pthread_create(&c->thread, NULL, beat, c);
	c->has_thread = r == 0;
	return -r;
}

static void stop_beat(struct job_copy *c)
{
	if (!c->has_thread)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_signal(&c->wake);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	c->has_thread = false;
}

void job_copy_free(struct job_copy *c)
{
	if (!c)
		return;
	stop_beat(c);
	if (c->making && is_mine(c))
		(void)unlinkat(c->fd, JOB_COPY_STATE, 0);
	fd_closep(&c->fd);
	free(c->path);
	free(c);
}

int job_copy_put(struct job_copy *c, const struct target *t, uint64_t bytes, uint64_t files,
		 struct error *err)
{
	int r;

	stop_beat(c);
	if (!is_mine(c))
		return error_set(
			err, ESTALE,
			"this node stood still for too long, and another one makes the copy "
			"for all nodes of the job");
	r = rmtree_at(c->fd, DATA, NULL, err); /* may be left by a maker that was killed below */
	if (r < 0)
		return r;
	if (renameat(t->dirfd, t->name, c->fd, DATA) < 0)
		return error_errno(err, errno, "move %s to %s", t->path, c->path);
	r = target_set_root_mode(t, c->fd, DATA, err);
	if (r < 0)
		return r;
	c->record.bytes = bytes;
	c->record.files = files;
	r = publish(c, "ready");
	if (r < 0)
		return error_errno(err, -r, "tell the other nodes of %s", c->path);
	c->making = false;
	return 0;
}

void job_copy_fail(struct job_copy *c, const struct error *why)
{
	if (!c->making)
		return;
	stop_beat(c);
	snprintf(c->record.text, sizeof(c->record.text), "%.*s", JOB_COPY_MAX_TEXT - 1, why->text);
	if (publish(c, "failed") == 0)
		c->making = false;
}

/* --- the nodes that wait ---------------------------------------------------------------------- */

enum {
	LOOK_FOUND = 1,
	LOOK_MINE, /* this node must make the copy */
	LOOK_WAIT,
};

/* Removes the record of a maker that has left without a result, or makes no progress. */
static int remove_record(const struct job_copy *c)
{
	int r = job_copy_record_remove(c->fd, c->ctx->node, &c->record);

	return r < 0 ? r : LOOK_WAIT;
}

/* Starts to make the copy here. If another node has moved the record, because it saw the record
 * before this one, waits. */
static int make_here(struct job_copy *c)
{
	int r = begin(c);

	c->making = r != -ESTALE;
	if (r == -ESTALE)
		return LOOK_WAIT;
	return r < 0 ? r : LOOK_MINE;
}

static int try_to_make(struct job_copy *c)
{
	_cleanup_(fd_closep) int fd = openat(
		c->fd, JOB_COPY_STATE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == EEXIST ? LOOK_WAIT : -errno;
	return make_here(c);
}

static int job_copy_look(struct job_copy *c, struct error *err)
{
	struct job_copy_record *record = &c->record;
	int r = job_copy_record_read(c->fd, JOB_COPY_STATE, record);

	if (r == -ENOENT)
		return try_to_make(c);
	if (r == -EAGAIN)
		return LOOK_WAIT;
	if (r < 0)
		return r;
	if (!strcmp(record->state, "ready"))
		return LOOK_FOUND;
	if (!strcmp(record->maker, c->ctx->node)) /* left by an earlier attempt of this node */
		return make_here(c);
	if (!strcmp(record->state, "failed"))
		return error_set(
			err, EREMOTEIO,
			"node %s, which makes the copy for all nodes of the job, has failed: %s",
			record->maker, record->text);
	return job_copy_has_lease(c->fd, record->maker) ? LOOK_WAIT : remove_record(c);
}

static void show_waiting(struct job_copy *c, const struct facts *facts, const struct plan *plan)
{
	struct plan shown = *plan;
	char size[PARSE_SIZE_TEXT];

	snprintf(shown.line, sizeof(shown.line),
		 "waits for node %.64s, which makes the copy for all nodes of the job (%s so far)",
		 *c->record.maker ? c->record.maker : "?", size_to_string(c->record.bytes, size));
	ctx_send_facts(c->ctx, facts, &shown);
}

static int take_over(struct job_copy *c, uint64_t still_ms)
{
	if (*c->record.maker)
		stage_io_warn(
			&c->ctx->io,
			"node %s, which makes the copy for all nodes of the job, has given no sign "
			"of life for %llu s; another node makes it",
			c->record.maker, (unsigned long long)still_ms / 1000);
	return remove_record(c);
}

/* Waits for the copy. This does not count as a stall, because the maker's node measures stalls of
 * the source. */
static int wait_for_copy(struct job_copy *c, const struct facts *facts, const struct plan *plan,
			 struct error *err)
{
	uint64_t seen_ms = clock_ms(), pause_ms = LOOK_MIN_MS, most_ms;
	struct job_copy_record seen = { .beat = UINT64_MAX };
	int r;

	while ((r = job_copy_look(c, err)) == LOOK_WAIT && !ctx_is_cancelled(c->ctx)) {
		if (!job_copy_record_is_same(&c->record, &seen))
			seen_ms = clock_ms();
		seen = c->record;
		most_ms = *seen.maker ? c->ctx->policy.stall_ms : EMPTY_MS;
		if (most_ms && clock_ms() - seen_ms > most_ms) {
			r = take_over(c, most_ms);
			if (r < 0)
				break;
			seen_ms = clock_ms();
			continue;
		}
		show_waiting(c, facts, plan);
		ctx_sleep(c->ctx, pause_ms);
		pause_ms = pause_ms * 2 < LOOK_MAX_MS ? pause_ms * 2 : LOOK_MAX_MS;
	}
	return ctx_is_cancelled(c->ctx) ? ctx_check(c->ctx, err) : r;
}

/* --- finding the copy ------------------------------------------------------------------------- */

/* Returns whether the copy can be shared. With shard=, each node has files of its own. A file that
 * is fetched for a mount has no name that could be moved. A tree without a complete count has no
 * fingerprint that identifies it. */
static bool is_possible(const struct ctx *ctx, const struct source *src, const struct facts *facts,
			const struct plan *plan)
{
	if (ctx->policy.n_nodes < 2 || ctx->ds->hydrate || ctx->ds->shard != DATASET_SHARD_ALL)
		return false;
	if (src->is_remote ? plan->method == DATASET_METHOD_MOUNT
			   : src->kind != SOURCE_FILE && !facts->counted)
		return false;
	return strcmp(plan->tier, PLAN_TIER_MEMORY) && strcmp(plan->tier, PLAN_TIER_SOURCE);
}

static int new_copy(struct ctx *ctx, const char *job_dir, const char *key, struct job_copy **copyp,
		    struct error *err)
{
	_cleanup_(freep) char *dir = job_copy_make_path(job_dir, ctx->ds->name, key);
	_cleanup_(job_copy_freep) struct job_copy *c = calloc(1, sizeof(*c));
	int r;

	if (!dir || !c)
		return error_set(err, ENOMEM, "out of memory");
	c->ctx = ctx;
	c->fd = -1;
	c->path = path_join(dir, DATA);
	if (!c->path)
		return error_set(err, ENOMEM, "out of memory");
	r = take_place(c, job_dir, dir, err);
	if (r == 0)
		*copyp = steal_ptr(c);
	return r;
}

int job_copy_find(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct job_copy **copyp, struct error *err)
{
	_cleanup_(job_copy_freep) struct job_copy *c = NULL;
	_cleanup_(freep) char *dir = NULL, *job_dir = NULL, *key = NULL;
	struct error why = ERROR_INIT;
	int r;

	*copyp = NULL;
	if (!is_possible(ctx, src, facts, plan))
		return 0;
	r = ctx_get_tier_dirs(ctx, plan->tier, &dir, &job_dir, err);
	if (r < 0 || !job_dir)
		return r;
	key = make_key(ctx, src, facts, plan);
	r = key ? new_copy(ctx, job_dir, key, &c, err) : error_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	ctx_set_paused(ctx, true);
	r = wait_for_copy(c, facts, plan, &why);
	ctx_set_paused(ctx, false);
	if (r < 0 && !why.code)
		(void)error_errno(&why, -r, "look at %s", c->path);
	if (r < 0) {
		*err = why;
		return r;
	}
	ctx_send_facts(ctx, facts, plan);
	*copyp = steal_ptr(c);
	return r == LOOK_FOUND ? JOB_COPY_E_FOUND : 0;
}

const char *job_copy_get_path(const struct job_copy *c)
{
	return c->path;
}

const char *job_copy_get_maker(const struct job_copy *c)
{
	return c->record.maker;
}

void job_copy_get_size(const struct job_copy *c, uint64_t *bytesp, uint64_t *filesp)
{
	*bytesp = c->record.bytes;
	*filesp = c->record.files;
}
