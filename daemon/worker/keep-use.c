/*
 * The worker that stages a dataset to keep it holds the lock of the unfinished directory. Another
 * job of the user waits for this lock and then uses the dataset. It waits at most for half of its
 * timeout=, or an hour; then it stages its own copy, which is removed with that job. If the first
 * worker is killed, the lock is free. The data is made in the job's directory, like other data, and
 * moved when it is complete. It belongs to the user, who may have changed it, so it is compared
 * with its fingerprint before it is used again.
 */
#include "daemon/worker/keep-use.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/keep/keep.h"
#include "common/protocol/tier-name.h"
#include "common/util/error.h"
#include "common/util/fd.h"
#include "common/util/log.h"
#include "common/util/path.h"
#include "daemon/engines/copy/hash.h"
#include "daemon/engines/copy/tree-fingerprint.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/target.h"

#define WAIT_STEP_US 50000
#define WAIT_SAY_MS 400
#define WAIT_MAX_MS 3600000
#define LOCK_MS 3000
#define ROOM_MS 60000

struct keep_use {
	struct keep keep;
	char name[KEEP_NAME_SIZE];
	char *key;
	char *path; /* path of the data, under its final name */
	int fd;	    /* directory of the unfinished dataset */
	uint64_t keep_ms;
	uint64_t bytes, files;
};

enum {
	LOOK_FOUND = 1,
	LOOK_MINE, /* this worker must make it */
	LOOK_BUSY, /* another worker is making it */
};

void keep_use_free(struct keep_use *k)
{
	if (!k)
		return;
	fd_closep(&k->fd);
	keep_close(&k->keep);
	free(k->key);
	free(k->path);
	free(k);
}

const char *keep_use_get_path(const struct keep_use *k)
{
	return k->path;
}

void keep_use_get_size(const struct keep_use *k, uint64_t *bytesp, uint64_t *filesp)
{
	*bytesp = k->bytes;
	*filesp = k->files;
}

static bool is_memory(const struct plan *plan)
{
	return !strcmp(plan->tier, PLAN_TIER_MEMORY);
}

/* Returns why the dataset cannot be kept, or NULL if it can. */
static const char *find_obstacle(const struct ctx *ctx, const struct facts *facts,
				 const struct plan *plan)
{
	if (!strcmp(plan->tier, PLAN_TIER_SOURCE))
		return "it stays where it is";
	if (is_memory(plan) && !ctx->policy.mem_keep_ms)
		return "what is in memory goes with the job (the site's MaxKeep= of [tier shm])";
	if (!is_memory(plan) && !ctx->policy.keep_ms)
		return "nothing is kept between jobs there (the site's MaxKeep=)";
	if (facts->is_remote)
		return "data from the web is not kept";
	if (plan->method == DATASET_METHOD_MOUNT && !plan->copy_first)
		return "a dataset with hydrate=copy is not kept; leave hydrate=copy out";
	return facts->counted ? NULL : "it has too many files to check them again";
}

static int is_over(void *arg)
{
	return ctx_is_cancelled(arg);
}

static int make_sum(const char *key, char name[static KEEP_NAME_SIZE])
{
	_cleanup_(hash_freep) struct hash *hash = NULL;

	if (hash_new(&hash) < 0)
		return -ENOMEM;
	hash_add(hash, key, strlen(key));
	hash_get(hash, name);
	return 0;
}

static int open_place_in(struct keep *keep, const char *base, char **placep)
{
	_cleanup_(fd_closep) int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char name[TIER_NAME_SIZE];

	if (fd < 0)
		return -errno;
	snprintf(name, sizeof(name), TIER_NAME_KEEP "%u", geteuid());
	*placep = path_join(base, name);
	return *placep ? keep_open(keep, fd) : -ENOMEM;
}

/* Opens the directory for kept datasets, which is beside the job's directory. dir: the user's
 * directory in the tier; if the keeper has made it, it is a subdirectory of the job's. */
static int open_place(struct keep *keep, const char *dir, char **placep)
{
	_cleanup_(freep) char *base = strdup(dir);
	char *slash = base ? strrchr(base, '/') : NULL;

	if (slash && strcmp(slash + 1, TIER_NAME_DATA) == 0) {
		*slash = '\0';
		slash = strrchr(base, '/');
	}
	if (!slash)
		return -ENOMEM;
	*slash = '\0';
	return open_place_in(keep, *base ? base : "/", placep);
}

static int open_kept(struct ctx *ctx, struct keep_use *k, const char *tier)
{
	_cleanup_(freep) char *dir = NULL, *place = NULL, *entry = NULL;
	int r = ctx_get_tier_dir(ctx, tier, &dir, NULL);

	if (r == 0)
		r = make_sum(k->key, k->name);
	if (r == 0)
		r = open_place(&k->keep, dir, &place);
	if (r < 0)
		return r;
	entry = path_join(place, k->name);
	k->path = entry ? path_join(entry, KEEP_DATA) : NULL;
	return k->path ? 0 : -ENOMEM;
}

static uint32_t get_job(const struct ctx *ctx)
{
	return (uint32_t)strtoul(ctx->job, NULL, 10);
}

static bool is_same(const struct ctx *ctx, const struct keep_use *k, const struct keep_entry *e)
{
	const uint64_t fingerprint = kv_get_u64(e->record, KEEP_FINGERPRINT, 0);
	uint64_t now;

	return !strcmp(kv_get_or_empty(e->record, KEEP_KEY), k->key) &&
	       tree_fingerprint_all(e->fd, KEEP_DATA, is_over, (void *)ctx, &now) == 0 &&
	       now == fingerprint;
}

/* Makes sure that it is kept for at least as long as this job wants. */
static void extend(const struct keep_use *k, const struct keep_entry *e)
{
	if (kv_get_u64(e->record, KEEP_MS, 0) >= k->keep_ms)
		return;
	kv_set_u64(e->record, KEEP_MS, k->keep_ms);
	(void)keep_write_record(e->fd, e->record);
}

/* Removes a kept dataset that has been changed, unless another job or another dataset of this job
 * uses it. */
static int drop(struct ctx *ctx, struct keep_use *k, const struct keep_entry *e, bool had_lease)
{
	int r;

	log_print(LOG_LEVEL_INFO, ctx->ds->name, "the kept dataset has been changed since then");
	if (had_lease)
		return -ETXTBSY;
	r = keep_lock(&k->keep, clock_ms() + LOCK_MS);
	if (r < 0)
		return r;
	keep_entry_drop(e, get_job(ctx));
	if (keep_entry_has_name(&k->keep, e, k->name))
		r = keep_retire(&k->keep, k->name);
	keep_unlock(&k->keep);
	if (r == -EBUSY)
		return -ETXTBSY;
	return r < 0 ? r : LOOK_BUSY; /* look once more */
}

/* Uses the kept dataset under the name, for which this job has a lease. */
static int use(struct ctx *ctx, struct keep_use *k, const struct keep_entry *e, bool had_lease)
{
	if (is_same(ctx, k, e)) {
		k->bytes = kv_get_u64(e->record, KEEP_BYTES, 0);
		k->files = kv_get_u64(e->record, KEEP_FILES, 0);
		return LOOK_FOUND;
	}
	return ctx_is_cancelled(ctx) ? -ECANCELED : drop(ctx, k, e, had_lease);
}

/* begin: if there is no kept dataset, start to make one. */
static int keep_use_look_once(struct ctx *ctx, struct keep_use *k, bool begin)
{
	struct keep_entry e;
	int r = keep_lock(&k->keep, clock_ms() + LOCK_MS);

	if (r < 0)
		return r;
	r = keep_entry_open(&k->keep, k->name, &e);
	if (r == 0) {
		r = keep_entry_take(&e, get_job(ctx));
		if (r >= 0)
			extend(k, &e);
		keep_unlock(&k->keep);
		if (r >= 0)
			r = use(ctx, k, &e, r > 0);
		keep_entry_deinit(&e);
		return r;
	}
	if (!begin) {
		keep_unlock(&k->keep);
		return LOOK_MINE;
	}
	if (r == -ESTALE && keep_retire(&k->keep, k->name) < 0)
		r = -ETXTBSY;
	else
		r = keep_begin(&k->keep, k->name, &k->fd);
	keep_unlock(&k->keep);
	if (r == -EBUSY)
		return LOOK_BUSY;
	return r < 0 ? r : LOOK_MINE;
}

static void say_waiting(struct ctx *ctx, const struct facts *facts, const struct plan *plan)
{
	struct plan waiting = *plan;

	strcpy(waiting.line, "waits for another job of yours that stages the same");
	ctx_send_facts(ctx, facts, &waiting);
}

/* Waits for the other job. This does not count as a stall, because that job's own worker measures
 * stalls. */
static int look_until(struct ctx *ctx, struct keep_use *k, const struct facts *facts,
		      const struct plan *plan)
{
	const uint64_t begin_ms = clock_ms(), timeout_ms = ctx->ds->timeout_ms;
	const uint64_t deadline_ms = begin_ms + (timeout_ms ? timeout_ms / 2 : WAIT_MAX_MS);
	uint64_t next_ms = begin_ms;
	int r;

	while ((r = keep_use_look_once(ctx, k, true)) == LOOK_BUSY) {
		if (ctx_is_cancelled(ctx) || clock_ms() >= deadline_ms) {
			r = ctx_is_cancelled(ctx) ? -ECANCELED : -ETIMEDOUT;
			break;
		}
		if (clock_ms() >= next_ms) {
			ctx_set_paused(ctx, true);
			say_waiting(ctx, facts, plan);
			next_ms = clock_ms() + WAIT_SAY_MS;
		}
		usleep(WAIT_STEP_US);
	}
	ctx_set_paused(ctx, false);
	if (next_ms > begin_ms)
		ctx_send_facts(ctx, facts, plan); /* shows the plan of before again */
	return r;
}

static const char *describe(int r)
{
	return r == -ENOENT || r == -ENODEV ? "there is no place for it on this node"
	       : r == -ETXTBSY	 ? "the kept dataset has been changed since then, and is in use"
	       : r == -ETIMEDOUT ? "another job of yours is staging the same for long"
				 : strerror(-r);
}

void keep_use_drop(struct ctx *ctx, struct keep_use *k)
{
	struct keep_entry e;
	int r = keep_lock(&k->keep, clock_ms() + LOCK_MS);

	if (r < 0)
		return;
	r = keep_entry_open(&k->keep, k->name, &e);
	if (r == 0) {
		keep_entry_drop(&e, get_job(ctx));
		(void)keep_retire(&k->keep, k->name); /* it stays if another job uses it */
		keep_entry_deinit(&e);
	}
	keep_unlock(&k->keep);
}

static int new_kept(struct ctx *ctx, const struct source *src, const struct facts *facts,
		    const struct plan *plan, struct keep_use **keptp)
{
	_cleanup_(keep_use_freep) struct keep_use *k = calloc(1, sizeof(*k));
	int r;

	if (!k)
		return -ENOMEM;
	k->fd = k->keep.fd = -1;
	k->keep_ms = is_memory(plan) ? ctx->policy.mem_keep_ms : ctx->policy.keep_ms;
	k->key = keep_make_key(ctx, src, facts, plan);
	r = k->key ? open_kept(ctx, k, plan->tier) : -ENOMEM;
	if (r == 0)
		*keptp = steal_ptr(k);
	return r;
}

int keep_use_look(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct keep_use **keptp)
{
	_cleanup_(keep_use_freep) struct keep_use *k = NULL;

	*keptp = NULL;
	if (!ctx->ds->keep_ms || find_obstacle(ctx, facts, plan) ||
	    new_kept(ctx, src, facts, plan, &k) < 0 ||
	    keep_use_look_once(ctx, k, false) != LOOK_FOUND)
		return 0;
	*keptp = steal_ptr(k);
	return KEEP_USE_E_FOUND;
}

int keep_use_find(struct ctx *ctx, const struct source *src, const struct facts *facts,
		  const struct plan *plan, struct keep_use **keptp, struct error *err)
{
	_cleanup_(keep_use_freep) struct keep_use *k = NULL;
	const char *why;
	int r;

	*keptp = NULL;
	if (!ctx->ds->keep_ms)
		return 0;
	why = find_obstacle(ctx, facts, plan);
	if (!why) {
		r = new_kept(ctx, src, facts, plan, &k);
		if (r == 0)
			r = look_until(ctx, k, facts, plan);
		if (ctx_is_cancelled(ctx))
			return ctx_check(ctx, err);
		if (r > 0) {
			*keptp = steal_ptr(k);
			return r == LOOK_FOUND ? KEEP_USE_E_FOUND : 0;
		}
		why = describe(r);
	}
	stage_io_warn(&ctx->io, "not kept for your next job: %s", why);
	return 0;
}

/* Writes the record of the data before the data is moved there. */
static int prepare(struct ctx *ctx, const struct keep_use *k, const struct target *t,
		   uint64_t bytes, uint64_t files)
{
	const struct keep_entry e = { .fd = k->fd };
	_cleanup_(kv_freep) struct kv *record = NULL;
	char shown[512];
	uint64_t fingerprint;
	int r;

	r = tree_fingerprint_all(t->dirfd, t->name, is_over, ctx, &fingerprint);
	if (r < 0 || kv_new(&record) < 0)
		return r < 0 ? r : -ENOMEM;
	kv_set(record, KEEP_KEY, k->key);
	kv_set(record, KEEP_SOURCE, dataset_show_source(ctx->ds, shown, sizeof(shown)));
	kv_set_u64(record, KEEP_MS, k->keep_ms);
	kv_set_u64(record, KEEP_BYTES, bytes);
	kv_set_u64(record, KEEP_FILES, files);
	kv_set_u64(record, KEEP_FINGERPRINT, fingerprint);
	r = keep_entry_take(&e, get_job(ctx));
	return r < 0 ? r : keep_write_record(k->fd, record);
}

static int finish(const struct keep_use *k, const struct target *t)
{
	int r = target_set_root_mode(t, k->fd, KEEP_DATA, NULL);

	if (r == 0)
		r = keep_lock(&k->keep, clock_ms() + LOCK_MS);
	if (r < 0)
		return r;
	r = keep_finish(&k->keep, k->name);
	keep_unlock(&k->keep);
	return r;
}

/* Moves the data back to target. A directory that is not writable cannot be moved to another
 * parent, so its mode is changed first. */
static int move_back(const struct keep_use *k, const struct target *t)
{
	if (t->root_mode && fchmodat(k->fd, KEEP_DATA, 0700, 0) < 0)
		return -errno;
	return renameat(k->fd, KEEP_DATA, t->dirfd, t->name) < 0 ? -errno : 0;
}

int keep_use_put(struct ctx *ctx, struct keep_use *k, const struct target *target, uint64_t bytes,
		 uint64_t files, struct error *err)
{
	int r = prepare(ctx, k, target, bytes, files), r2 = 0;

	if (ctx_is_cancelled(ctx))
		return ctx_check(ctx, err);
	if (r == 0 && renameat(target->dirfd, target->name, k->fd, KEEP_DATA) < 0) {
		r = -errno;
	} else if (r == 0) {
		r = finish(k, target);
		r2 = r < 0 ? move_back(k, target) : 0;
	}
	if (r2 < 0)
		return error_errno(err, -r2, "move %s back", k->path);
	if (r < 0)
		stage_io_warn(&ctx->io, "not kept for your next job: %s", strerror(-r));
	return r < 0;
}

/* r: result of opening keep; it is closed in any case */
static bool make_room(struct keep *keep, int r)
{
	if (r == 0)
		r = keep_evict_oldest(keep, clock_ms() + ROOM_MS);
	keep_close(keep);
	return r == 1;
}

bool keep_use_make_room(const struct ctx *ctx, const struct target *target)
{
	_cleanup_(freep) char *place = NULL;
	struct keep keep = KEEP_INIT;

	return !target->memory && ctx->policy.keeper &&
	       make_room(&keep, open_place(&keep, target->dir, &place));
}

bool keep_use_make_memory(const struct ctx *ctx)
{
	_cleanup_(freep) char *place = NULL;
	struct keep keep = KEEP_INIT;

	return *ctx->policy.mem_keep_dir &&
	       make_room(&keep, open_place_in(&keep, ctx->policy.mem_keep_dir, &place));
}
