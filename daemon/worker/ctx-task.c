#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/protocol/kv.h"
#include "common/util/error.h"
#include "common/util/memory.h"
#include "daemon/worker/ctx-internal.h"

#define CTX_DEFAULT_THREADS 4
#define CTX_MAX_THREADS 256

static uint32_t default_threads(void)
{
	unsigned n = memory_count_cpus();

	return n > CTX_DEFAULT_THREADS ? CTX_DEFAULT_THREADS : n;
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
		.ssd = kv_get_u64(t, "ssd", 0),
		.fuse = kv_get_u64(t, "fuse", 0),
		.squashfuse = kv_get_u64(t, "squashfuse", 0),
		.keeper = kv_get_u64(t, "keeper", 0),
		.cache_size = kv_get_u64(t, "cachesize", 64 << 20),
		.cache_first = kv_get_u64(t, "cachefirst", UINT64_MAX),
		.threads = (uint32_t)stage_io_get_most(threads, default_threads(), CTX_MAX_THREADS),
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
	memory_facts_from_kv(&ctx->policy.memory, t);
	ctx->io.n_threads = ctx->policy.threads;
	ctx->io.is_n_threads_given = ctx->policy.threads_given;
	ctx->io.max_readers = ctx->policy.max_readers;
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
	/* the name comes from the task, because one item alone cannot show which names are used by
	 * others */
	strcpy(p->list.items[0].name, name);
	ctx->ds = ctx->io.ds = &p->list.items[0];
	return 0;
}

int ctx_task_read(struct ctx *ctx, struct error *err)
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
