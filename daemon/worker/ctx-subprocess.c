/*
 * This file starts the other processes that a worker needs, before the worker gives up the right to
 * start programs: stage-fetch (network), stage-broadcast (sbcast), and squashfuse_ll (serves images
 * instead of the worker).
 */
#include "common/protocol/kv.h"
#include "common/util/error.h"
#include "common/util/log.h"
#include "daemon/worker/ctx-internal.h"
#include "daemon/worker/squashfuse.h"
#include "daemon/worker/broadcast/broadcast-send.h"
#include "daemon/worker/web/fetch.h"

/* Returns the seconds after which a transfer below 1 KiB/s is aborted. This is well below the
 * dataset's stall limit. */
static uint32_t get_low_speed_s(const struct ctx *ctx)
{
	uint64_t s = ctx->policy.stall_ms / 3000;

	if (ctx->policy.stall_ms == 0 || s > 60)
		return 60;
	return s == 0 ? 1 : (uint32_t)s;
}

static int start_fetch(struct ctx *ctx, struct error *err)
{
	const struct fetch_config config = {
		.web = kv_get_or_empty(ctx->priv->task, "web"),
		.profile = ctx->ds->profile,
		.keys_fd = ctx->priv->keys_fd,
		.rate = ctx->policy.max_rate,
		.low_speed_s = get_low_speed_s(ctx),
	};

	if (ctx->link_only || !dataset_scheme_is_web(ctx->ds->scheme))
		return 0;
	return fetch_new(&ctx->fetch, &config, err);
}

/* squashfuse_ll does not support subdir=. */
static int start_squashfuse(struct ctx *ctx, struct error *err)
{
	enum dataset_method m = ctx->ds->method;

	if (!ctx->policy.squashfuse || !ctx->policy.fuse || ctx->plan_only || ctx->link_only ||
	    ctx->ds->subdir || (m != DATASET_METHOD_AUTO && m != DATASET_METHOD_MOUNT))
		return 0;
	return squashfuse_new(&ctx->squashfuse, err);
}

/* Starts stage-broadcast. If this fails, each node reads the source itself. */
static void start_broadcast(struct ctx *ctx)
{
	const struct policy *p = &ctx->policy;
	struct error err = ERROR_INIT;

	if (!p->keeper || p->fan_min_nodes == 0 || p->n_nodes < p->fan_min_nodes ||
	    p->node_index > 0 || ctx->plan_only || ctx->link_only || ctx->ds->is_set ||
	    ctx->ds->scheme != DATASET_SCHEME_FILE)
		return;
	if (broadcast_send_new(&ctx->broadcast, p->fan_program, ctx->job, &err) < 0)
		log_print(LOG_LEVEL_WARNING, ctx->ds->name, "%s", err.text);
}

int ctx_start_subprocesses(struct ctx *ctx, struct error *err)
{
	int r;

	r = start_fetch(ctx, err);
	if (r == 0)
		r = start_squashfuse(ctx, err);
	if (r == 0)
		start_broadcast(ctx);
	return r;
}

void ctx_end_fetch(struct ctx *ctx)
{
	fetch_free(steal_ptr(ctx->fetch));
}

void ctx_end_broadcast(struct ctx *ctx)
{
	broadcast_send_free(steal_ptr(ctx->broadcast));
}

void ctx_end_subprocesses(struct ctx *ctx)
{
	ctx_end_fetch(ctx);
	ctx_end_broadcast(ctx);
	squashfuse_free(steal_ptr(ctx->squashfuse));
}
