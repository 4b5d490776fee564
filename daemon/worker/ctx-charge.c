/*
 * The charged bytes are compared with two numbers, without a lock: the limit of the policy and the
 * granted bytes. A thread that exceeds the granted bytes asks for more under ask_lock, at least
 * CHARGE_STEP, so that an archive of unknown size does not cause a request for each file.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/protocol/kv.h"
#include "common/protocol/proto.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/worker/ctx-internal.h"
#include "daemon/worker/daemon-conn.h"
#include "daemon/worker/plan.h"

#define CHARGE_STEP_BYTES (64ULL << 20)
#define CHARGE_STEP_FILES 4096

static int refuse_space(const char *tier, uint64_t need, uint64_t have, struct error *err)
{
	char need_text[PARSE_SIZE_TEXT], have_text[PARSE_SIZE_TEXT];

	return error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC, "needs %s, %s has %s left for it",
			  size_to_string(need, need_text), plan_tier_to_string(tier),
			  size_to_string(have, have_text));
}

/* Reports that what was written, of a total that is not known, does not fit. */
static int refuse_more(const char *tier, uint64_t most, struct error *err)
{
	char text[PARSE_SIZE_TEXT];

	return error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC,
			  "its files need more than the %s that %s has left for them",
			  size_to_string(most, text), plan_tier_to_string(tier));
}

/* Asks stagingd once. The caller holds ask_lock. is_all: with what is granted, these are all bytes
 * that the dataset will take. */
static int reserve_locked(struct ctx *ctx, uint64_t bytes, uint64_t files, bool is_all,
			  uint64_t *havep, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_RESERVE), *answer = NULL;
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "tier", p->tier);
	kv_set_u64(kv, "bytes", bytes);
	kv_set_u64(kv, "files", files);
	kv_set_u64(kv, "written", atomic_load(&p->granted_bytes) + p->beside_bytes);
	r = daemon_conn_ask(p->conn, kv, PROTO_OP_GRANT, &answer, NULL, 0, NULL, err);
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
	return is_all ? refuse_space(p->tier, atomic_load(&p->granted_bytes) + bytes, *havep, err)
		      : refuse_more(p->tier, atomic_load(&p->granted_bytes) + *havep, err);
}

int ctx_claim(struct ctx *ctx, const char *tier, uint64_t bytes, uint64_t files, uint64_t *havep,
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
		p->beside_bytes = 0; /* stagingd has released what was granted in the other tier */
	}
	r = reserve_locked(ctx, bytes, files, true, &have, err);
	pthread_mutex_unlock(&p->ask_lock);
	if (havep)
		*havep = have;
	return r;
}

/* Asks stagingd for memory outside of the tier. The caller holds ask_lock. */
static int claim_beside_locked(struct ctx *ctx, uint64_t bytes, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	_cleanup_(kv_freep) struct kv *kv = proto_new(PROTO_OP_RESERVE), *answer = NULL;
	uint64_t more = bytes - p->beside_bytes;
	int r;

	if (!kv)
		return error_set(err, ENOMEM, "out of memory");
	kv_set(kv, "tier", PLAN_TIER_MEMORY);
	kv_set_u64(kv, "bytes", more);
	kv_set_u64(kv, "files", 0);
	kv_set_u64(kv, "written", atomic_load(&p->granted_bytes) + p->beside_bytes);
	kv_set_u64(kv, "beside", 1);
	r = daemon_conn_ask(p->conn, kv, PROTO_OP_GRANT, &answer, NULL, 0, NULL, err);
	if (r < 0)
		return r;
	if (kv_get_u64(answer, "ok", 0) != 1)
		return refuse_space(PLAN_TIER_MEMORY, bytes, kv_get_u64(answer, "have", 0), err);
	p->beside_bytes = bytes;
	return 0;
}

int ctx_claim_beside(struct ctx *ctx, uint64_t bytes, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	int r = 0;

	pthread_mutex_lock(&p->ask_lock);
	if (bytes > p->beside_bytes)
		r = claim_beside_locked(ctx, bytes, err);
	pthread_mutex_unlock(&p->ask_lock);
	return r;
}

void ctx_reset_charges(struct ctx *ctx)
{
	atomic_store(&ctx->priv->charged_bytes, 0);
	atomic_store(&ctx->priv->charged_files, 0);
}

/* Asks for what is missing: at least one step, or, if that is not granted, the exact amount. */
static int reserve_more(struct ctx *ctx, struct error *err)
{
	struct ctx_private *p = ctx->priv;
	uint64_t bytes, files, granted, have = 0;
	struct error first = ERROR_INIT;
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

		r = reserve_locked(ctx, step_bytes, step_files, false, &have, &first);
		if (r == -ENOSPC)
			r = reserve_locked(ctx, bytes, files, false, &have, err);
		else if (r < 0 && err)
			*err = first;
	}
	pthread_mutex_unlock(&p->ask_lock);
	return r;
}

static int refuse_limit(struct ctx *ctx, uint64_t bytes, struct error *err)
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
		return error_set_hint(err, -EDQUOT, PLAN_HINT_MAX);
	return -EDQUOT;
}

static bool is_over(const struct policy *pol, uint64_t bytes, uint64_t files)
{
	return (pol->max_bytes && bytes > pol->max_bytes) ||
	       (pol->max_files && files > pol->max_files);
}

bool ctx_is_over_limit(const struct ctx *ctx)
{
	const struct ctx_private *p = ctx->priv;

	return is_over(&ctx->policy, atomic_load(&p->charged_bytes),
		       atomic_load(&p->charged_files));
}

int ctx_charge_io(struct stage_io *io, uint64_t bytes, uint64_t files, struct error *err)
{
	struct ctx *ctx = ctx_of_io(io);
	struct ctx_private *p = ctx->priv;
	uint64_t b = atomic_fetch_add(&p->charged_bytes, bytes) + bytes;
	uint64_t f = atomic_fetch_add(&p->charged_files, files) + files;

	daemon_conn_set_written(p->conn, b);
	if (is_over(&ctx->policy, b, f))
		return refuse_limit(ctx, b, err);
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

uint64_t ctx_get_unused(const struct ctx *ctx, uint64_t bytes)
{
	const struct ctx_private *p = ctx->priv;
	const uint64_t charged = atomic_load(&p->charged_bytes);
	const uint64_t granted = atomic_load(&p->granted_bytes);
	const uint64_t used = charged > bytes ? charged : bytes;

	/* What is beside may have been granted in another tier, and last. */
	return !p->beside_bytes && granted > used ? granted - used : 0;
}
