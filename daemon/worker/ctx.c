/*
 * What is charged is held against two numbers without a lock: the limit of policy and what was
 * granted. Who steps over the second asks for more under ask_lock: at least CHARGE_STEP, so that an
 * archive of unknown size asks now and then and not for each file.
 */
#include "daemon/worker/ctx.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/conn.h"
#include "common/error.h"
#include "common/fusermount.h"
#include "common/kv.h"
#include "common/log.h"
#include "common/parse.h"
#include "common/proto.h"
#include "common/rundir.h"
#include "daemon/worker/copy/copy-rate.h"
#include "daemon/worker/link.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/sandbox.h"
#include "daemon/worker/spread/spread-send.h"
#include "daemon/worker/web/fetch.h"

#define CTX_DEFAULT_THREADS 4
#define CHARGE_STEP_BYTES (64ULL << 20)
#define CHARGE_STEP_FILES 4096
#define RATE_STEP_US 100000

struct ctx_private {
	struct kv *task;
	int keys_fd; /* beside the task: not read here, who reads hostile bytes has no keys */
	struct dataset_list list;
	char *data_path, *tmp_path;
	struct link *link;
	struct manifest *manifest;

	struct copy_rate rate;
	unsigned n_passes; /* of each byte: that many make one of progress */

	pthread_mutex_t ask_lock;
	char tier[DATASET_MAX_ITEM]; /* of the reservation; "": none */
	_Atomic uint64_t granted_bytes, granted_files;
	_Atomic uint64_t charged_bytes, charged_files;
};

static uint32_t default_threads(void)
{
	cpu_set_t set;
	int n = CTX_DEFAULT_THREADS;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	return n < 1 ? 1 : n > CTX_DEFAULT_THREADS ? CTX_DEFAULT_THREADS : (uint32_t)n;
}

static uint64_t lower_limit(uint64_t a, uint64_t b)
{
	return a == 0 || (b != 0 && b < a) ? b : a;
}

static void read_policy(struct ctx *ctx, const struct kv *t)
{
	const struct dataset *ds = ctx->ds;
	uint64_t threads = ds->threads ? ds->threads : kv_get_u64(t, "threads", 0);

	ctx->policy = (struct policy){
		.rule = kv_get_or_empty(t, "rule"),
		.rule_match = kv_get_or_empty(t, "rulematch"),
		.methods = kv_get_or_empty(t, "methods"),
		.tiers = kv_get_or_empty(t, "tiers"),
		.max_bytes = lower_limit(kv_get_u64(t, "maxbytes", 0), ds->max_size),
		.max_files = kv_get_u64(t, "maxfiles", 0),
		.mem_percent = (uint32_t)kv_get_u64(t, "mempercent", 100),
		.keep_free = kv_get_u64(t, "keepfree", 0),
		.mem_limit = kv_get_u64(t, "memlimit", 0),
		.mem_used = kv_get_u64(t, "memused", 0),
		.ssd = kv_get_u64(t, "ssd", 0),
		.fuse = kv_get_u64(t, "fuse", 0),
		.keeper = kv_get_u64(t, "keeper", 0),
		.cache_size = kv_get_u64(t, "cachesize", 64 << 20),
		.threads = threads > 0 && threads <= 256 ? (uint32_t)threads : default_threads(),
		.threads_given = threads > 0,
		.max_readers = (uint32_t)kv_get_u64(t, "maxreaders", 0),
		.max_rate = kv_get_u64(t, "maxrate", 0),
		.token_dir = kv_get_or_empty(t, "tokendir"),
		.token_wait_ms = kv_get_u64(t, "tokenwait", 0),
		.jitter_ms = kv_get_u64(t, "jitter", 0),
		.stall_ms = ds->stall_ms ? ds->stall_ms : kv_get_u64(t, "stall", 0),
		.keep_ms = kv_get_u64(t, "keep", 0),
		.mem_keep_ms = kv_get_u64(t, "memkeep", 0),
		.mem_keep_dir = kv_get_or_empty(t, "memkeepdir"),
		.n_nodes = (uint32_t)kv_get_u64(t, "nodes", 1),
		.node_index = (uint32_t)kv_get_u64(t, "nodeindex", 0),
		.fan_min_nodes = (uint32_t)kv_get_u64(t, "fannodes", 0),
		.fan_always = kv_get_u64(t, "fanalways", 0),
		.fan_program = kv_get_or_empty(t, "fanprogram"),
	};
}

static int read_item(struct ctx *ctx, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	const char *name = kv_get_or_empty(p->task, "name");
	int r;

	r = dataset_list_from_string(&p->list, kv_get_or_empty(p->task, "item"), err);
	if (r < 0)
		return r;
	if (p->list.n_items != 1)
		return error_set(err, EPROTO, "a task is one dataset, this has %zu",
				 p->list.n_items);
	if (!*name || strlen(name) >= DATASET_NAME_SIZE || strpbrk(name, "./"))
		return error_set(err, EPROTO, "bad name '%s' in the task", name);
	/* the list the user gave made names unique, one item alone can't */
	strcpy(p->list.items[0].name, name);
	ctx->ds = &p->list.items[0];
	return 0;
}

static int read_task(struct ctx *ctx, struct error *err)
{
	const struct kv *t = ctx->priv->task;
	const char *mode = kv_get_or_empty(t, "mode");
	int r;

	r = read_item(ctx, err);
	if (r < 0)
		return r;
	read_policy(ctx, t);
	ctx->job = kv_get_or_empty(t, "job");
	ctx->node = kv_get_or_empty(t, "node");
	ctx->rundir = kv_get_or_empty(t, "rundir");
	ctx->slot = (uint32_t)kv_get_u64(t, "slot", 0);
	ctx->plan_only = !strcmp(mode, "plan");
	ctx->link_only = !strcmp(mode, "source");
	ctx->data_path = kv_get_or_empty(t, "data");
	ctx->tmp_path = kv_get_or_empty(t, "tmp");
	if (ctx->policy.keeper && geteuid() == 0)
		return error_set(err, EPERM, "stage-worker does not work as root for a job");
	return 0;
}

static int open_dir(const char *path, int *fdp, struct error *err)
{
	int fd;

	if (path[0] != '/')
		return error_set(err, EPROTO, "'%s' in the task is no absolute path", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_errno(err, errno, "open %s", path);
	*fdp = fd;
	return 0;
}

static int open_dirs(struct ctx *ctx, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	int r;

	r = open_dir(ctx->data_path, &ctx->data_fd, err);
	if (r == 0)
		r = open_dir(ctx->tmp_path, &ctx->tmp_fd, err);
	if (r < 0)
		return r;
	if (asprintf(&ctx->manifest_path, "%s/" RUNDIR_MANIFEST ".%s", ctx->rundir, ctx->ds->name) <
	    0) {
		ctx->manifest_path = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	return manifest_open(&p->manifest, ctx->manifest_path, err);
}

static void undo_behind(void *arg)
{
	struct ctx *ctx = arg;

	if (ctx->manifest_path)
		manifest_release(ctx->manifest_path, fusermount_unmount, NULL);
}

void ctx_renounce(void)
{
	sandbox_enter();
}

/* Might fusermount3 be needed? */
static bool may_mount_itself(const struct ctx *ctx)
{
	enum dataset_method m = ctx->ds->method;

	return !ctx->policy.keeper && ctx->policy.fuse &&
	       (m == DATASET_METHOD_AUTO || m == DATASET_METHOD_MOUNT);
}

/* slower than 1 KiB/s for so long is broken off: well before the dataset counts as stalled */
static uint32_t get_low_speed_s(const struct ctx *ctx)
{
	uint64_t s = ctx->policy.stall_ms / 3000;

	return s == 0 || s > 60 ? ctx->policy.stall_ms && s == 0 ? 1 : 60 : (uint32_t)s;
}

/* Who has the network is a process of its own, started before this one gives that up. */
static int start_fetch(struct ctx *ctx, struct error *err)
{
	const struct fetch_config config = {
		.web = kv_get_or_empty(ctx->priv->task, "web"),
		.profile = ctx->ds->profile,
		.keys_fd = ctx->priv->keys_fd,
		.rate = ctx->policy.max_rate,
		.low_speed_s = get_low_speed_s(ctx),
	};

	if (ctx->link_only || (ctx->ds->scheme != DATASET_SCHEME_HTTP &&
			       ctx->ds->scheme != DATASET_SCHEME_S3))
		return 0;
	return fetch_new(&ctx->fetch, &config, err);
}

/* So is who starts sbcast. Without it the planner's wish comes to nothing, and each node reads. */
static void start_spread(struct ctx *ctx)
{
	const struct policy *p = &ctx->policy;
	struct error err = ERROR_INIT;

	if (!p->keeper || p->fan_min_nodes == 0 || p->n_nodes < p->fan_min_nodes ||
	    p->node_index > 0 || ctx->plan_only || ctx->link_only || ctx->ds->is_set ||
	    ctx->ds->scheme != DATASET_SCHEME_FILE)
		return;
	if (spread_send_new(&ctx->spread, p->fan_program, ctx->job, &err) < 0)
		log_print(LOG_LEVEL_WARNING, ctx->ds->name, "%s", err.text);
}

static int receive_task(int sock, struct kv **taskp, int *keys_fdp, struct error *err)
{
	size_t n_fds = 0;
	const char *op;
	int r;

	r = conn_recv_fds(sock, taskp, keys_fdp, 1, &n_fds);
	if (r < 0)
		return error_errno(err, -r, "receive the task");
	if (r == 0)
		return error_set(err, EPROTO, "stagingd hung up before it sent a task");
	op = proto_get_op(*taskp);
	if (!op || strcmp(op, PROTO_OP_TASK))
		return error_set(err, EPROTO, "the first message is no task");
	return 0;
}

/* The thread is started even for a task that can't be done: the refusal goes through it. */
int ctx_new(struct ctx **ctxp, int sock, struct error *err)
{
	_cleanup_(ctx_freep) struct ctx *ctx = calloc(1, sizeof(*ctx));
	struct link_limits limits = { .grace_ms = CTX_GRACE_MS };
	_cleanup_(fd_closep) int fd = sock;
	struct error refusal = ERROR_INIT;
	int r, refused;

	if (!ctx)
		return error_set(err, ENOMEM, "out of memory");
	ctx->data_fd = ctx->tmp_fd = -1;
	ctx->priv = calloc(1, sizeof(*ctx->priv));
	if (!ctx->priv)
		return error_set(err, ENOMEM, "out of memory");
	ctx->priv->keys_fd = -1;
	pthread_mutex_init(&ctx->priv->ask_lock, NULL);
	copy_rate_init(&ctx->priv->rate, 0);
	ctx->priv->n_passes = 1;
	r = receive_task(sock, &ctx->priv->task, &ctx->priv->keys_fd, err);
	if (r < 0)
		return r;
	refused = read_task(ctx, &refusal);
	ctx->priv->rate.per_s = ctx->policy.max_rate;
	if (refused == 0 && !ctx->plan_only)
		refused = open_dirs(ctx, &refusal);
	if (refused == 0)
		refused = start_fetch(ctx, &refusal);
	fd_closep(&ctx->priv->keys_fd);
	if (refused == 0) {
		start_spread(ctx);
		limits.stall_ms = ctx->plan_only ? 0 : ctx->policy.stall_ms;
		limits.timeout_ms = ctx->ds->timeout_ms;
	}
	if (refused < 0 || !may_mount_itself(ctx))
		ctx_renounce(); /* the link's thread too */
	r = link_new(&ctx->priv->link, steal_fd(&fd), &limits, undo_behind, ctx, err);
	if (r < 0)
		return r;
	if (refused < 0) {
		ctx_send_error(ctx, &refusal);
		*err = refusal;
		return refused;
	}
	*ctxp = steal_ptr(ctx);
	return 0;
}

void ctx_free(struct ctx *ctx)
{
	if (!ctx)
		return;
	if (ctx->priv) {
		link_free(ctx->priv->link);
		manifest_close(ctx->priv->manifest);
		dataset_list_deinit(&ctx->priv->list);
		kv_free(ctx->priv->task);
		pthread_mutex_destroy(&ctx->priv->ask_lock);
		copy_rate_deinit(&ctx->priv->rate);
		free(ctx->priv);
	}
	fetch_free(ctx->fetch);
	spread_send_free(ctx->spread);
	fd_closep(&ctx->data_fd);
	fd_closep(&ctx->tmp_fd);
	free(ctx->manifest_path);
	free(ctx);
}

bool ctx_is_cancelled(const struct ctx *ctx)
{
	return link_is_cancelled(ctx->priv->link);
}

void ctx_set_paused(struct ctx *ctx, bool paused)
{
	link_set_paused(ctx->priv->link, paused);
}

int ctx_check(const struct ctx *ctx, struct error *err)
{
	return ctx_is_cancelled(ctx) ? link_get_reason(ctx->priv->link, err) : 0;
}

void ctx_come_back(struct ctx *ctx)
{
	link_come_back(ctx->priv->link);
}

void ctx_go_off(struct ctx *ctx)
{
	link_go_off(ctx->priv->link);
}

/* Not longer than until it is cancelled. */
static void keep_rate(struct ctx *ctx, uint64_t bytes)
{
	struct timespec t;
	uint64_t us;

	clock_gettime(CLOCK_MONOTONIC, &t);
	us = copy_rate_take(&ctx->priv->rate, bytes,
			    (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000);
	while (us > 0 && !ctx_is_cancelled(ctx)) {
		uint64_t step = us < RATE_STEP_US ? us : RATE_STEP_US;

		usleep((useconds_t)step);
		us -= step;
	}
}

void ctx_set_passes(struct ctx *ctx, unsigned n)
{
	ctx->priv->n_passes = n;
}

void ctx_add_progress(struct ctx *ctx, uint64_t bytes, uint64_t files)
{
	link_add_progress(ctx->priv->link, bytes / ctx->priv->n_passes, files);
	if (ctx->policy.max_rate && bytes)
		keep_rate(ctx, bytes);
}

/* One exchange; ask_lock is held. */
static int reserve_locked(struct ctx *ctx, uint64_t bytes, uint64_t files, uint64_t *havep,
			  struct error *err)
{
	struct ctx_private *p = ctx->priv;
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_RESERVE), *answer = NULL;
	char have[PARSE_SIZE_TEXT], need[PARSE_SIZE_TEXT];
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "tier", p->tier);
	kv_set_u64(kv, "bytes", bytes);
	kv_set_u64(kv, "files", files);
	kv_set_u64(kv, "written", atomic_load(&p->granted_bytes));
	r = link_ask(p->link, kv, PROTO_OP_GRANT, &answer, NULL, 0, NULL, err);
	if (r < 0)
		return r;
	*havep = kv_get_u64(answer, "have", 0);
	if (kv_get_u64(answer, "ok", 0) == 1) {
		atomic_fetch_add(&p->granted_bytes, bytes);
		atomic_fetch_add(&p->granted_files, files);
		return 0;
	}
	if (bytes <= *havep && kv_get(answer, "why"))
		return error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC, "%s", kv_get(answer, "why"));
	size_to_string(atomic_load(&p->granted_bytes) + bytes, need);
	return error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC, "needs %s, %s has %s left for it", need,
			  !strcmp(p->tier, PLAN_TIER_MEMORY) ? "memory" : p->tier,
			  size_to_string(*havep, have));
}

int ctx_reserve(struct ctx *ctx, const char *tier, uint64_t bytes, uint64_t files, uint64_t *havep,
		struct error *err)
{
	struct ctx_private *p = ctx->priv;
	uint64_t have = 0;
	int r;

	pthread_mutex_lock(&p->ask_lock);
	if (strcmp(p->tier, tier)) {
		snprintf(p->tier, sizeof(p->tier), "%s", tier);
		atomic_store(&p->granted_bytes, 0);
		atomic_store(&p->granted_files, 0);
	}
	r = reserve_locked(ctx, bytes, files, &have, err);
	pthread_mutex_unlock(&p->ask_lock);
	if (havep)
		*havep = have;
	return r;
}

void ctx_reset_charges(struct ctx *ctx)
{
	atomic_store(&ctx->priv->charged_bytes, 0);
	atomic_store(&ctx->priv->charged_files, 0);
}

/* What is missing, in one step or, where that is not granted, to the byte. */
static int reserve_more(struct ctx *ctx, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	uint64_t bytes, files, granted, have = 0;
	int r = 0;

	pthread_mutex_lock(&p->ask_lock);
	bytes = atomic_load(&p->charged_bytes);
	granted = atomic_load(&p->granted_bytes);
	bytes = bytes > granted ? bytes - granted : 0;
	files = atomic_load(&p->charged_files);
	granted = atomic_load(&p->granted_files);
	files = files > granted ? files - granted : 0;
	if (bytes || files) {
		uint64_t step_bytes = bytes && bytes < CHARGE_STEP_BYTES ? CHARGE_STEP_BYTES
									 : bytes;
		uint64_t step_files = files && files < CHARGE_STEP_FILES ? CHARGE_STEP_FILES
									 : files;

		r = reserve_locked(ctx, step_bytes, step_files, &have, NULL);
		if (r == -ENOSPC)
			r = reserve_locked(ctx, bytes, files, &have, err);
		else if (r < 0)
			ctx_check(ctx, err);
	}
	pthread_mutex_unlock(&p->ask_lock);
	return r;
}

static int refuse_limit(struct ctx *ctx, uint64_t bytes, uint64_t files, struct error *err)
{
	char text[PARSE_SIZE_TEXT];

	if (ctx->policy.max_bytes && bytes > ctx->policy.max_bytes)
		error_exit(err, STAGE_EXIT_NO_SPACE, EDQUOT,
			   "is larger than the limit of %s for one dataset",
			   size_to_string(ctx->policy.max_bytes, text));
	else
		error_exit(err, STAGE_EXIT_NO_SPACE, EDQUOT,
			   "has more than the %llu files allowed in one dataset",
			   (unsigned long long)ctx->policy.max_files);
	if (ctx->ds->max_size && ctx->ds->max_size == ctx->policy.max_bytes)
		return error_mend(err, -EDQUOT, "raise max=, or stage less (subdir=, include=)");
	return -EDQUOT;
}

int ctx_charge(struct ctx *ctx, uint64_t bytes, uint64_t files, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	const struct policy *pol = &ctx->policy;
	uint64_t b = atomic_fetch_add(&p->charged_bytes, bytes) + bytes;
	uint64_t f = atomic_fetch_add(&p->charged_files, files) + files;

	link_set_written(p->link, b);
	if ((pol->max_bytes && b > pol->max_bytes) || (pol->max_files && f > pol->max_files))
		return refuse_limit(ctx, b, f, err);
	if (!p->tier[0] ||
	    (b <= atomic_load(&p->granted_bytes) && f <= atomic_load(&p->granted_files)))
		return 0;
	return reserve_more(ctx, err);
}

void ctx_get_charged(const struct ctx *ctx, uint64_t *bytesp, uint64_t *filesp)
{
	*bytesp = atomic_load(&ctx->priv->charged_bytes);
	*filesp = atomic_load(&ctx->priv->charged_files);
}

int ctx_get_tier_dir(struct ctx *ctx, const char *tier, char **pathp, struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_TIER), *answer = NULL;
	const char *path;
	char *copy;
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "tier", tier);
	r = link_ask(ctx->priv->link, kv, PROTO_OP_TIERDIR, &answer, NULL, 0, NULL, err);
	if (r < 0)
		return r;
	path = kv_get_or_empty(answer, "path");
	if (path[0] != '/')
		return error_set(err, ENODEV, "tier %s: %s", tier,
				 kv_get(answer, "text") ? kv_get(answer, "text") : "not here");
	copy = strdup(path);
	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	*pathp = copy;
	return 0;
}

int ctx_mount(struct ctx *ctx, unsigned n_threads, struct ctx_mount *m, struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_MOUNT), *answer = NULL;
	struct ctx_mount got = { 0 };
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set_u64(kv, "threads", n_threads);
	r = link_ask(ctx->priv->link, kv, PROTO_OP_MOUNTED, &answer, got.fds, CTX_MAX_MOUNT_FDS,
		     &got.n_fds, err);
	if (r < 0)
		return r;
	if (kv_get_or_empty(answer, "path")[0] == '/')
		got.path = strdup(kv_get(answer, "path"));
	if (!got.path || got.n_fds == 0) {
		ctx_mount_deinit(&got);
		error_set(err, ENODEV, "can't be mounted: %s",
			  kv_get(answer, "text") ? kv_get(answer, "text")
						 : "stagingd gave no descriptor");
		return error_mend(err, -ENODEV, "method=extract unpacks it");
	}
	*m = got;
	return 0;
}

void ctx_mount_deinit(struct ctx_mount *m)
{
	for (size_t i = 0; i < m->n_fds; i++)
		fd_closep(&m->fds[i]);
	m->n_fds = 0;
	free(m->path);
	m->path = NULL;
}

int ctx_record(struct ctx *ctx, enum manifest_kind kind, const char *path, struct error *err)
{
	return manifest_add(ctx->priv->manifest, kind, path, err);
}

int ctx_undo(struct ctx *ctx, struct error *err)
{
	return manifest_release(ctx->manifest_path, fusermount_unmount, err);
}

void ctx_end_fetch(struct ctx *ctx)
{
	fetch_free(steal_ptr(ctx->fetch));
}

void ctx_end_spread(struct ctx *ctx)
{
	spread_send_free(steal_ptr(ctx->spread));
}

void ctx_warn(struct ctx *ctx, const char *fmt, ...)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_WARNING);
	struct error text = ERROR_INIT;
	va_list ap;

	va_start(ap, fmt);
	error_setv(&text, EINVAL, fmt, ap); /* for its escaping and its bound */
	va_end(ap);
	if (!kv)
		return;
	kv_set(kv, "text", text.text);
	link_send(ctx->priv->link, kv);
}

int ctx_send_facts(struct ctx *ctx, const struct facts *facts, const struct plan *plan)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_FACTS);
	const char *filter = facts_filter_to_string(facts->filter);

	if (!kv)
		return -ENOMEM;
	kv_set(kv, "kind", facts_kind_to_string(plan->kind));
	kv_setf(kv, "format", "%s%s%s", facts_format_to_string(facts->format), *filter ? "+" : "",
		filter);
	kv_set_u64(kv, "total", facts->bytes);
	kv_set_u64(kv, "nfiles", facts->n_files);
	kv_set(kv, "method", dataset_method_to_string(plan->method));
	kv_set(kv, "tier", plan->tier);
	kv_set(kv, "plan", plan->line);
	kv_set(kv, "why", plan->why);
	return link_send(ctx->priv->link, kv);
}

int ctx_send_ready(struct ctx *ctx, const struct ctx_ready *ready)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_READY);

	if (!kv)
		return -ENOMEM;
	kv_set_u64(kv, "bytes", ready->bytes);
	kv_set_u64(kv, "files", ready->files);
	kv_set(kv, "kind", facts_kind_to_string(ready->kind));
	kv_set_u64(kv, "stays", ready->stays);
	if (ready->list)
		kv_set(kv, "list", ready->list);
	return link_send(ctx->priv->link, kv);
}

int ctx_send_error(struct ctx *ctx, const struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_ERROR);

	if (!kv)
		return -ENOMEM;
	kv_setf(kv, "code", "%d", (int)error_to_exit(err));
	kv_set_u64(kv, "errno", (uint64_t)-err->code);
	kv_set(kv, "text", err->text);
	return link_send(ctx->priv->link, kv);
}

void ctx_set_serving(struct ctx *ctx, void (*stop)(void *arg), void *arg)
{
	link_set_serving(ctx->priv->link, stop, arg);
}

void ctx_end_serving(struct ctx *ctx)
{
	link_end_serving(ctx->priv->link);
}
