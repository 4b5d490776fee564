/*
 * The steps of staging that worker-stage.c and stage-keep.c share: the plan, the reservation of
 * space, and the stager's work.
 */
#include "daemon/worker/stage-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/worker/broadcast/broadcast.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/source.h"
#include "daemon/worker/source-token.h"
#include "daemon/worker/target.h"

static uint64_t get_missing(uint64_t want, uint64_t have)
{
	return want > have ? want - have : 0;
}

int stage_claim(struct stage *s, uint64_t bytes, uint64_t files, uint64_t *havep, struct error *err)
{
	const char *tier = s->plan.tier;
	int r;

	if (!s->reserved_in || strcmp(s->reserved_in, tier)) {
		free(s->reserved_in);
		s->reserved_in = NULL;
		s->reserved_bytes = s->reserved_files = 0;
	}
	bytes = get_missing(bytes, s->reserved_bytes);
	files = get_missing(files, s->reserved_files);
	if (s->reserved_in && bytes == 0 && files == 0)
		return 0;
	r = ctx_claim(s->ctx, tier, bytes, files, havep, err);
	if (r < 0)
		return r;
	if (!s->reserved_in)
		s->reserved_in = strdup(tier); /* if this fails, the next call asks again */
	s->reserved_bytes += bytes;
	s->reserved_files += files;
	return 0;
}

int stage_plan(struct stage *s, struct error *err)
{
	const struct stager *stager;
	int r = plan_make(&s->plan, &s->in, err);

	if (s->plan.method != DATASET_METHOD_EXTRACT || s->facts.extract_exact)
		return r;
	stager = stager_find(s->plan.method, &s->facts);
	if (!stager || !stager->measure || s->facts.is_remote)
		return r;
	r = stager->measure(s->ctx, s->src, &s->facts, err);
	return r < 0 ? r : plan_make(&s->plan, &s->in, err);
}

/* Adds the numbers to "No space left on device". An error about a limit already has them. */
static void say_how_full(struct stage *s, struct error *err)
{
	char used[PARSE_SIZE_TEXT], size[PARSE_SIZE_TEXT], first[512];
	struct statvfs v;

	if (err->exit_code || !s->target || fstatvfs(s->target->dirfd, &v) < 0)
		return;
	snprintf(first, sizeof(first), "%.500s", err->text);
	error_exit(err, STAGE_EXIT_NO_SPACE, -err->code, "%s (%s: %s of %s used%s)", first,
		   s->target->memory ? "memory" : s->plan.tier,
		   size_to_string((uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize, used),
		   size_to_string((uint64_t)v.f_blocks * v.f_frsize, size),
		   v.f_files > 0 && v.f_ffree == 0 ? ", no more files can be created" : "");
}

/* Returns whether this worker reads the source at once. An image that is mounted before it is
 * copied is read when its users need it. For a broadcast, only the first node reads. */
static bool reads_at_once(const struct stage *s)
{
	return s->target && !s->ctx->ds->hydrate &&
	       (!s->plan.broadcast || s->ctx->policy.node_index == 0);
}

int stage_make(struct stage *s, struct error *err)
{
	_cleanup_(source_token_end) struct source_token token = SOURCE_TOKEN_INIT;
	struct ctx *ctx = s->ctx;
	int r;

	s->stager = stager_find(s->plan.method, &s->facts);
	if (!s->stager)
		return error_set(err, EOPNOTSUPP, "this stage-worker was built without method=%s",
				 dataset_method_to_string(s->plan.method));
	r = reads_at_once(s) ? source_token_take(&token, ctx, err) : 0;
	if (r < 0)
		return r;
	if (s->plan.method != DATASET_METHOD_MOUNT)
		ctx_renounce();
	ctx_reset_charges(ctx);
	ctx_begin_stage(ctx);
	ctx_set_near(ctx, false);
	ctx_set_passes(ctx, s->plan.broadcast ? 2 : 1); /* received, then extracted or moved */
	r = s->plan.broadcast ? broadcast_take(ctx, s->src, err) : 0;
	ctx_end_broadcast(ctx);
	if (r == 0)
		r = s->stager->stage(ctx, s->src, &s->facts, &s->plan, s->target, &s->result, err);
	ctx_end_stage(ctx);
	if (ctx_is_cancelled(ctx))
		return ctx_check(ctx, err); /* replaces the stager's own error */
	if (r == -ENOSPC || r == -EDQUOT)
		say_how_full(s, err);
	return r;
}
