#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/conn.h"
#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/sandbox/sandbox.h"
#include "common/util/clock.h"
#include "common/util/error.h"
#include "common/util/fusermount.h"
#include "common/util/log.h"
#include "common/util/strutil.h"
#include "daemon/worker/ctx-internal.h"
#include "daemon/worker/daemon-conn.h"
#include "daemon/worker/plan.h"

#define RATE_STEP_US 100000
#define SLEEP_STEP_MS 50 /* interval for checks of a cancel */

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
	ctx->manifest_path = strutil_printf("%s/" RUNDIR_MANIFEST ".%s", ctx->rundir,
					    ctx->ds->name);
	if (!ctx->manifest_path)
		return error_set(err, ENOMEM, "out of memory");
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

/* Returns whether fusermount3 may be needed. */
static bool may_mount_itself(const struct ctx *ctx)
{
	enum dataset_method m = ctx->ds->method;

	return !ctx->policy.keeper && ctx->policy.fuse &&
	       (m == DATASET_METHOD_AUTO || m == DATASET_METHOD_MOUNT);
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

/* Sleeps to keep MaxRate=, but not after a cancel. */
static void keep_rate(struct ctx *ctx, uint64_t bytes)
{
	uint64_t us = rate_limit_take(&ctx->priv->rate, bytes, clock_us());

	while (us > 0 && !ctx_is_cancelled(ctx)) {
		uint64_t step = us < RATE_STEP_US ? us : RATE_STEP_US;

		daemon_conn_add_progress(ctx->priv->conn, 0, 0);
		usleep((useconds_t)step);
		us -= step;
	}
}

static void send_warning(struct ctx *ctx, bool passes, const char *text)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_WARNING);

	if (!kv)
		return;
	kv_set(kv, "text", text);
	if (passes)
		kv_set(kv, "passes", "1");
	daemon_conn_send(ctx->priv->conn, kv);
}

/* ---- stage_io for engines ---- */

static const struct ctx *get_ctx(const struct stage_io *io)
{
	return (const struct ctx *)((const char *)io - offsetof(struct ctx, io));
}

static bool io_is_cancelled(const struct stage_io *io)
{
	return daemon_conn_is_cancelled(get_ctx(io)->priv->conn);
}

static int io_get_reason(const struct stage_io *io, struct error *err)
{
	return daemon_conn_get_reason(get_ctx(io)->priv->conn, err);
}

static void io_add_unread(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	struct ctx_private *p = ctx_of_io(io)->priv;

	daemon_conn_add_progress(p->conn, bytes / p->n_passes, files);
}

static void io_add_progress(struct stage_io *io, uint64_t bytes, uint64_t files)
{
	struct ctx *ctx = ctx_of_io(io);

	io_add_unread(io, bytes, files);
	if (ctx->policy.max_rate && bytes && !ctx->priv->is_near)
		keep_rate(ctx, bytes);
}

static void io_warn(struct stage_io *io, const char *text)
{
	send_warning(ctx_of_io(io), false, text);
}

static const struct stage_io_ops io_ops = {
	.is_cancelled = io_is_cancelled,
	.get_reason = io_get_reason,
	.add_progress = io_add_progress,
	.add_unread = io_add_unread,
	.charge = ctx_charge_io,
	.warn = io_warn,
};

/* ---- the context ---- */

/* The thread is started even for a task that is refused, because the refusal is sent through it. */
int ctx_new(struct ctx **ctxp, int sock, struct error *err)
{
	_cleanup_(ctx_freep) struct ctx *ctx = calloc(1, sizeof(*ctx));
	struct daemon_conn_limits limits = { .grace_ms = CTX_GRACE_MS };
	_cleanup_(fd_closep) int fd = sock;
	struct error refusal = ERROR_INIT;
	int r, refused;

	if (!ctx)
		return error_set(err, ENOMEM, "out of memory");
	ctx->io.ops = &io_ops;
	ctx->data_fd = ctx->tmp_fd = -1;
	ctx->priv = calloc(1, sizeof(*ctx->priv));
	if (!ctx->priv)
		return error_set(err, ENOMEM, "out of memory");
	ctx->priv->keys_fd = -1;
	pthread_mutex_init(&ctx->priv->ask_lock, NULL);
	rate_limit_init(&ctx->priv->rate, 0);
	ctx->priv->n_passes = 1;
	r = receive_task(sock, &ctx->priv->task, &ctx->priv->keys_fd, err);
	if (r < 0)
		return r;
	refused = ctx_task_read(ctx, &refusal);
	ctx->priv->rate.per_s = ctx->policy.max_rate;
	if (refused == 0 && !ctx->plan_only)
		refused = open_dirs(ctx, &refusal);
	if (refused == 0)
		refused = ctx_start_subprocesses(ctx, &refusal);
	fd_closep(&ctx->priv->keys_fd);
	if (refused == 0) {
		limits.stall_ms = ctx->plan_only ? 0 : ctx->policy.stall_ms;
		limits.timeout_ms = ctx->ds->timeout_ms;
	}
	if (refused < 0 || !may_mount_itself(ctx))
		ctx_renounce(); /* before the thread starts, so that it is in the sandbox, too */
	r = daemon_conn_new(&ctx->priv->conn, fd, &limits, undo_behind, ctx, err);
	if (r < 0) {
		daemon_conn_tell(fd, err);
		return r;
	}
	fd = -1; /* the connection owns it now */
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
		daemon_conn_free(ctx->priv->conn);
		manifest_close(ctx->priv->manifest);
		dataset_list_deinit(&ctx->priv->list);
		kv_free(ctx->priv->task);
		pthread_mutex_destroy(&ctx->priv->ask_lock);
		rate_limit_deinit(&ctx->priv->rate);
		free(ctx->priv);
	}
	ctx_end_subprocesses(ctx);
	fd_closep(&ctx->data_fd);
	fd_closep(&ctx->tmp_fd);
	free(ctx->manifest_path);
	free(ctx);
}

void ctx_set_paused(struct ctx *ctx, bool paused)
{
	daemon_conn_set_paused(ctx->priv->conn, paused);
}

void ctx_sleep(const struct ctx *ctx, uint64_t ms)
{
	const uint64_t end_ms = clock_ms() + ms;
	uint64_t now_ms;

	while (!ctx_is_cancelled(ctx) && (now_ms = clock_ms()) < end_ms) {
		const uint64_t rest_ms = end_ms - now_ms;

		usleep((useconds_t)(rest_ms < SLEEP_STEP_MS ? rest_ms : SLEEP_STEP_MS) * 1000);
	}
}

void ctx_end_stage(struct ctx *ctx)
{
	daemon_conn_end_stage(ctx->priv->conn);
}

void ctx_begin_stage(struct ctx *ctx)
{
	daemon_conn_begin_stage(ctx->priv->conn);
}

void ctx_set_near(struct ctx *ctx, bool near)
{
	ctx->priv->is_near = near;
}

void ctx_set_passes(struct ctx *ctx, unsigned n)
{
	ctx->priv->n_passes = n;
}

int ctx_get_tier_dir(struct ctx *ctx, const char *tier, char **pathp, struct error *err)
{
	_cleanup_(freep) char *shared = NULL;

	return ctx_get_tier_dirs(ctx, tier, pathp, &shared, err);
}

/* Sets the error. If stagingd's text says what to do after "; ", that part becomes the hint. */
static int refuse_tier(const char *tier, const char *text, struct error *err)
{
	const char *hint = text ? strstr(text, "; ") : NULL;

	if (!hint)
		return error_set(err, ENODEV, "tier %s: %s", tier, text ? text : "not here");
	error_set(err, ENODEV, "tier %s: %.*s", tier, (int)(hint - text), text);
	return error_set_hint(err, -ENODEV, "%s", hint + 2);
}

int ctx_get_tier_dirs(struct ctx *ctx, const char *tier, char **pathp, char **sharedp,
		      struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_TIER), *answer = NULL;
	_cleanup_(freep) char *copy = NULL, *shared = NULL;
	const char *path;
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "tier", tier);
	r = daemon_conn_ask(ctx->priv->conn, kv, PROTO_OP_TIERDIR, &answer, NULL, 0, NULL, err);
	if (r < 0)
		return r;
	path = kv_get_or_empty(answer, "path");
	if (path[0] != '/')
		return refuse_tier(tier, kv_get(answer, "text"), err);
	copy = strdup(path);
	shared = strdup(kv_get_or_empty(answer, "shared"));
	if (!copy || !shared)
		return error_set(err, ENOMEM, "out of memory");
	*pathp = steal_ptr(copy);
	*sharedp = *shared ? steal_ptr(shared) : NULL;
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
	r = daemon_conn_ask(ctx->priv->conn, kv, PROTO_OP_MOUNTED, &answer, got.fds,
			    CTX_MAX_MOUNT_FDS, &got.n_fds, err);
	if (r < 0)
		return r;
	if (kv_get_or_empty(answer, "path")[0] == '/')
		got.path = strdup(kv_get(answer, "path"));
	if (!got.path || got.n_fds == 0) {
		ctx_mount_deinit(&got);
		error_set(err, ENODEV, "can't be mounted: %s",
			  kv_get(answer, "text") ? kv_get(answer, "text")
						 : "stagingd gave no descriptor");
		return error_set_hint(err, -ENODEV, "method=extract unpacks it");
	}
	*m = got;
	return 0;
}

int ctx_place(struct ctx *ctx, int fd, bool read_only, struct error *err)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_PLACE), *answer = NULL;
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set_u64(kv, "ro", read_only);
	r = daemon_conn_ask_with(ctx->priv->conn, kv, fd, PROTO_OP_PLACED, &answer, err);
	return r < 0 ? r : -(int)(kv_get_u64(answer, "errno", EPROTO) & 0xfff);
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

void ctx_warn_for_now(struct ctx *ctx, const char *fmt, ...)
{
	struct error text = ERROR_INIT;
	va_list ap;

	va_start(ap, fmt);
	error_setv(&text, EINVAL, fmt, ap); /* escapes the text and limits its length */
	va_end(ap);
	send_warning(ctx, true, text.text);
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
	return daemon_conn_send(ctx->priv->conn, kv);
}

int ctx_send_ready(struct ctx *ctx, const struct ctx_ready *ready)
{
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_READY);

	if (!kv)
		return -ENOMEM;
	kv_set_u64(kv, "bytes", ready->bytes);
	kv_set_u64(kv, "moved", daemon_conn_get_progress(ctx->priv->conn));
	kv_set_u64(kv, "files", ready->files);
	kv_set(kv, "kind", facts_kind_to_string(ready->kind));
	kv_set_u64(kv, "stays", ready->stays);
	if (!ready->stays)
		kv_set_u64(kv, "unused", ctx_get_unused(ctx, ready->bytes));
	if (ready->list)
		kv_set(kv, "list", ready->list);
	return daemon_conn_send(ctx->priv->conn, kv);
}

int ctx_send_error(struct ctx *ctx, const struct error *err)
{
	return daemon_conn_send_error(ctx->priv->conn, err);
}

void ctx_set_serving(struct ctx *ctx, const struct daemon_conn_serving *serving, void *arg)
{
	daemon_conn_set_serving(ctx->priv->conn, serving, arg);
}

void ctx_end_serving(struct ctx *ctx)
{
	daemon_conn_end_serving(ctx->priv->conn);
}
