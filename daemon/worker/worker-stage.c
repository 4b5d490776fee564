/*
 * The planner is asked again after each obstacle: a tier does not exist, a reservation is not
 * granted, or a tier became full while an archive of unknown size was written. Each time, the entry
 * of that tier gets the size that is known now, so each tier is refused at most once and the loop
 * ends.
 */
#include "daemon/worker/stage-internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/util/error.h"
#include "common/util/log.h"
#include "common/util/parse.h"
#include "daemon/worker/ctx.h"
#include "daemon/worker/job-copy.h"
#include "daemon/worker/keep-use.h"
#include "daemon/worker/list-file.h"
#include "daemon/worker/hint.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/probe.h"
#include "daemon/worker/source.h"
#include "daemon/worker/space.h"
#include "daemon/worker/broadcast/broadcast.h"
#include "daemon/worker/stager.h"
#include "daemon/worker/target.h"

static void stage_deinit(struct stage *s)
{
	keep_use_free(s->kept);
	job_copy_free(s->copy);
	target_close(s->target);
	source_close(s->src);
	free(s->result.link_to);
	free(s->list);
	free(s->reserved_in);
}

/* Returns whether /dev/fuse exists. Without a keeper, this process must also be able to open it. */
static bool node_can_mount(const struct ctx *ctx)
{
	return access("/dev/fuse", ctx->policy.keeper ? F_OK : R_OK | W_OK) == 0;
}

static struct plan_ability ability(const struct ctx *ctx, const struct facts *f)
{
	return (struct plan_ability){
		.can_copy = stager_find(DATASET_METHOD_COPY, f) != NULL,
		.can_extract = stager_find(DATASET_METHOD_EXTRACT, f) != NULL,
		.can_mount = stager_find(DATASET_METHOD_MOUNT, f) && node_can_mount(ctx),
		.can_link = stager_find(DATASET_METHOD_LINK, f) != NULL,
		.has_images = stager_has_images(),
		.can_broadcast = true,
	};
}

static int prepare(struct stage *s, struct error *err)
{
	int r;

	r = source_open(s->ctx, &s->src, err);
	if (r < 0)
		return r;
	r = probe_source(s->ctx, s->src, &s->facts, err);
	if (r < 0)
		return r;
	s->in = (struct plan_input){
		.ds = s->ctx->ds,
		.facts = &s->facts,
		.policy = &s->ctx->policy,
		.able = ability(s->ctx, &s->facts),
	};
	space_measure(s->ctx, &s->in);
	return 0;
}

static bool has_dest(const struct stage *s)
{
	const char *dest = s->ctx->ds->dest;

	return dest && strcmp(dest, "auto");
}

/* Plans without mounts if a mount failed and was not requested: the image is unpacked, which gives
 * the same directory. */
static bool learn_mount(struct stage *s, int r, const struct error *err)
{
	if (r != -ENODEV || s->plan.method != DATASET_METHOD_MOUNT || !s->in.able.can_mount ||
	    s->ctx->ds->method != DATASET_METHOD_AUTO || has_dest(s))
		return false;
	s->in.able.can_mount = false;
	stage_io_warn(&s->ctx->io, "it is unpacked: %s", err->text);
	return true;
}

/* Notes what is known now about the tier that failed. Returns false if nothing new is known; then
 * the error stands. */
static bool learn(struct stage *s, int r, uint64_t have)
{
	struct plan_space *space = plan_get_space(&s->in, s->plan.tier);
	char text[PARSE_SIZE_TEXT];

	if (!space || (r != -ENOSPC && r != -ENODEV && r != -EDQUOT))
		return false;
	if (r == -ENODEV)
		space->present = false;
	if (space->known && space->free_bytes <= have)
		return false;
	space->known = true;
	space->free_bytes = have;
	snprintf(space->limit, sizeof(space->limit), "%s has %s left",
		 plan_tier_to_string(space->tier), size_to_string(have, text));
	return true;
}

/* Excludes all tiers, because the dataset has exceeded its limit. An archive that can be mounted is
 * mounted instead. */
static bool learn_limit(struct stage *s)
{
	bool changed = false;

	if (s->plan.method != DATASET_METHOD_EXTRACT || !s->in.able.can_mount)
		return false;
	for (size_t i = 0; i < s->in.n_spaces; i++) {
		changed = changed || s->in.spaces[i].present;
		s->in.spaces[i].present = false;
	}
	return changed;
}

/* Returns whether the target has enough space. Removes kept datasets, the least recently used
 * first, if it has not. */
static bool has_room(struct stage *s, struct plan_space *space)
{
	do {
		space->known = false;
		space_measure_dir(s->target->dirfd, space);
		if (!space->known || space->free_bytes >= s->plan.need_bytes)
			return true;
	} while (keep_use_make_room(s->ctx, s->target));
	return false;
}

static void give_up_keeping(struct stage *s, const char *why)
{
	stage_io_warn(&s->ctx->io, "not kept for your next job: %s", why);
	s->keep_is_full = true;
	keep_use_free(s->kept);
	s->kept = NULL;
	target_close(s->target);
	s->target = NULL;
}

/* Opens the target. If the site's tmpfs for kept data has no space, the job's own memory is
 * used. */
static int open_target(struct stage *s, struct error *err)
{
	struct plan_space space = { .tier = s->ctx->policy.mem_keep_dir };
	int r;

	r = target_open(s->ctx, s->plan.tier, s->kept != NULL, &s->target, err);
	if (!s->kept || !stage_is_in_memory(s))
		return r;
	if (r == 0 && has_room(s, &space))
		return 0;
	give_up_keeping(s, r < 0 ? err->text : space.limit);
	return target_open(s->ctx, s->plan.tier, false, &s->target, err);
}

/* Opens the place that the plan names, and reserves space. */
static int take_place(struct stage *s, uint64_t *havep, struct error *err)
{
	const struct plan *plan = &s->plan;
	struct plan_space *space = plan_get_space(&s->in, plan->tier);
	int r;

	*havep = 0;
	if (!strcmp(plan->tier, PLAN_TIER_SOURCE))
		return 0;
	r = open_target(s, err);
	if (r < 0)
		return r;
	if (space && !space->known && !has_room(s, space)) {
		*havep = space->free_bytes;
		space->known = false; /* so that learn() finds something new */
		return error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC, "%s", space->limit);
	}
	while (stage_is_in_memory(s) && space_lacks_memory(s->ctx, plan->need_bytes) &&
	       keep_use_make_memory(s->ctx))
		;
	return stage_claim(s, plan->need_bytes, plan->need_files, havep, err);
}

static void forget_attempt(struct stage *s)
{
	broadcast_leave(s->src);
	keep_use_free(s->kept);
	s->kept = NULL;
	job_copy_free(s->copy);
	s->copy = NULL;
	target_close(s->target);
	s->target = NULL;
	free(s->result.link_to);
	s->result = (struct stager_result){ 0 };
	ctx_undo(s->ctx, NULL);
}

/* Plans without a broadcast if one has failed for any reason, because the source can still be
 * read. */
static bool learn_broadcast(struct stage *s, const struct error *err)
{
	if (!s->plan.broadcast || ctx_is_cancelled(s->ctx))
		return false;
	s->in.able.can_broadcast = false;
	stage_io_warn(&s->ctx->io, "not read once for all nodes, this one reads for itself: %s",
		      err->text);
	return true;
}

/* Gives up keeping the dataset if it was larger than estimated and the site's tmpfs for kept data
 * is full. */
static bool learn_full_keep(struct stage *s, int r)
{
	if (r != -ENOSPC || !s->kept || !s->target || !stage_is_in_memory(s))
		return false;
	give_up_keeping(s, "the site's tmpfs for kept data is full");
	return true;
}

/* Plans and tries until the dataset is made or the planner has no other way. */
static int plan_and_make(struct stage *s, struct error *err)
{
	struct error full = ERROR_INIT;
	uint64_t have = 0;
	bool tried = false;
	int r;

	r = stage_take_keep_first(s, err);
	if (r > 0)
		return 0;
	if (r < 0)
		forget_attempt(s);
	for (;;) {
		r = stage_plan(s, err);
		if (r < 0 && full.code) {
			*err = full; /* the earlier error explains more */
			return full.code;
		}
		if (r < 0)
			return r;
		ctx_send_facts(s->ctx, &s->facts, &s->plan);
		r = stage_take_keep(s, &have, err);
		if (r == 0)
			r = stage_take_job_copy(s, err);
		if (r > 0)
			return 0;
		if (r == 0)
			r = take_place(s, &have, err);
		if (r == 0) {
			have = 0;
			r = stage_make(s, err);
			tried = true;
		}
		if (r == 0)
			return 0;
		if (r == -ENOSPC)
			plan_hint_space(&s->plan, &s->in, r, err);
		if (ctx_is_cancelled(s->ctx))
			return r;
		if (!learn_broadcast(s, err) && !learn_mount(s, r, err) && !learn_full_keep(s, r)) {
			if (tried || (r == -ENODEV && has_dest(s)))
				full = *err;
			if (ctx_is_over_limit(s->ctx) ? !learn_limit(s) : !learn(s, r, have))
				return r;
		}
		log_print(LOG_LEVEL_INFO, s->ctx->ds->name, "%s: %s; planning again", s->plan.tier,
			  err->text);
		forget_attempt(s);
	}
}

static int publish_target(struct stage *s, struct error *err)
{
	int r = 1;
	const char *path;

	if (s->copy)
		r = job_copy_put(s->copy, s->target, s->result.bytes, s->result.files, err);
	else if (s->kept)
		r = keep_use_put(s->ctx, s->kept, s->target, s->result.bytes, s->result.files, err);
	if (r != 0)
		return r < 0 ? r : target_publish(s->ctx, s->target, err);
	path = s->copy ? job_copy_get_path(s->copy) : keep_use_get_path(s->kept);
	return target_publish_place(s->ctx, path, s->kept != NULL, err);
}

/* Publishes a mount. A copy of the image may be moved first, because it is open and its name does
 * not matter. */
static int publish_mount(struct stage *s, struct error *err)
{
	int r = 0;

	if (s->copy && s->target)
		r = job_copy_put(s->copy, s->target, (uint64_t)s->src->st.st_size, 1, err);
	else if (s->kept && s->target)
		r = keep_use_put(s->ctx, s->kept, s->target, (uint64_t)s->src->st.st_size, 1, err);
	return r < 0 ? r : target_publish_place(s->ctx, s->result.link_to, false, err);
}

/* Returns where the data is that will be published. */
static const char *get_made(const struct stage *s)
{
	if (s->result.link_to)
		return s->result.link_to;
	if (s->target)
		return s->target->path;
	return s->copy ? job_copy_get_path(s->copy) : keep_use_get_path(s->kept);
}

static int publish(struct stage *s, struct error *err)
{
	int r;

	if (s->facts.kind == SOURCE_SET) {
		r = list_file_write(s->ctx, s->src, get_made(s), &s->list, err);
		if (r < 0)
			return r;
	}
	if (s->result.stays)
		return publish_mount(s, err);
	if (s->result.link_to && s->plan.method == DATASET_METHOD_LINK)
		return target_publish_link(s->ctx, s->result.link_to, err);
	if (s->result.link_to)
		return target_publish_place(s->ctx, s->result.link_to, s->kept != NULL, err);
	return publish_target(s, err);
}

/* Links to the source (onfail=source), in the same shape. why: the failure, which becomes a
 * warning; NULL: another worker has reported it. Refused if a checksum was required. */
static int fall_back_to_source(struct stage *s, const struct error *why, struct error *err)
{
	int r;

	if (s->facts.is_remote) {
		error_set(err, EINVAL, "a link can't lead to an address");
		return error_set_hint(err, -EINVAL, "leave onfail=source out");
	}
	if (s->ctx->ds->verify == DATASET_VERIFY_SHA256) {
		error_set(err, EINVAL, "a link can't be verified: what it shows may change");
		return error_set_hint(err, -EINVAL, "leave onfail=source or verify= out");
	}
	if (why)
		stage_io_warn(&s->ctx->io, "used where it is, staging failed: %s", why->text);
	s->plan = (struct plan){ .method = DATASET_METHOD_LINK, .tier = PLAN_TIER_SOURCE };
	s->plan.kind = s->facts.kind == SOURCE_FILE ? SOURCE_FILE : SOURCE_DIR;
	strcpy(s->plan.line, "link to the source, as onfail=source says");
	ctx_send_facts(s->ctx, &s->facts, &s->plan);
	r = stage_make(s, err);
	return r < 0 ? r : publish(s, err);
}

static bool may_fall_back(const struct stage *s)
{
	return s->ctx->ds->onfail == DATASET_ONFAIL_SOURCE && s->src && !s->facts.is_remote &&
	       s->ctx->ds->verify != DATASET_VERIFY_SHA256 && !ctx_is_cancelled(s->ctx) &&
	       (s->plan.method == DATASET_METHOD_COPY || s->plan.method == DATASET_METHOD_LINK);
}

static int ready(struct stage *s, struct error *err)
{
	struct ctx_ready msg = {
		.bytes = s->result.bytes,
		.files = s->result.files,
		.kind = s->plan.kind,
		.stays = s->result.stays,
		.list = s->list,
	};
	int r;

	ctx_end_fetch(s->ctx);
	r = ctx_send_ready(s->ctx, &msg);
	if (r < 0)
		return error_errno(err, -r, "tell stagingd");
	if (!s->result.stays)
		return 0;
	return s->stager->serve(s->ctx, s->result.state, err);
}

static int worker_stage_run(struct stage *s, struct error *err)
{
	struct error first;
	int r;

	r = prepare(s, err);
	if (r < 0)
		return r;
	if (s->ctx->plan_only) {
		r = stage_plan(s, err);
		ctx_send_facts(s->ctx, &s->facts, &s->plan);
		return r;
	}
	if (s->ctx->link_only) {
		r = fall_back_to_source(s, NULL, err);
		return r < 0 ? r : ready(s, err);
	}
	r = plan_and_make(s, err);
	if (r == 0 && s->plan.hint[0])
		stage_io_warn(&s->ctx->io, "%s", s->plan.hint);
	if (r == 0)
		r = publish(s, err);
	if (r < 0 && may_fall_back(s)) {
		first = *err;
		if (s->copy)
			job_copy_fail(s->copy, &first); /* the other nodes need not try the same */
		forget_attempt(s);
		r = fall_back_to_source(s, &first, err);
	}
	return r < 0 ? r : ready(s, err);
}

int stage_run(struct ctx *ctx)
{
	struct stage s = { .ctx = ctx };
	struct error err = ERROR_INIT;
	int r;

	ctx_begin_stage(ctx); /* looking at a source may hang, too */
	r = worker_stage_run(&s, &err);
	ctx_end_stage(ctx);
	if (r < 0) {
		if (s.copy && !ctx_is_cancelled(ctx))
			job_copy_fail(s.copy, &err);
		job_copy_free(steal_ptr(s.copy));
		target_close(s.target);
		s.target = NULL;
		if (!ctx->plan_only)
			ctx_undo(ctx, NULL);
		hint_error(ctx, s.src, &err);
		ctx_send_error(ctx, &err);
		log_print(LOG_LEVEL_ERROR, ctx->ds->name, "%s", err.text);
	}
	stage_deinit(&s);
	return r < 0 ? 1 : 0;
}
