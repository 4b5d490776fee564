/*
 * The sentences for a dataset that does not fit: into the place that was chosen, or below the
 * site's limit for one dataset.
 */
#include <errno.h>
#include <string.h>

#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/worker/plan-internal.h"

static const struct plan_space *get_space(const struct planner *p, const char *tier)
{
	return plan_get_space((struct plan_input *)p->in, tier);
}

int plan_hint_limit(const struct planner *p, struct error *err)
{
	const struct policy *pol = p->in->policy;

	if (p->ds->max_size && p->ds->max_size == pol->max_bytes)
		return error_set_hint(err, -EDQUOT, PLAN_HINT_MAX);
	return error_set_hint(
		err, -EDQUOT,
		"stage less (subdir=, include=), pack it (stagectl pack), or ask the site");
}

/* Returns whether the user could mount an image instead, which needs no space. */
static bool may_be_image(const struct planner *p)
{
	const struct facts *f = p->facts;

	return p->in->able.has_images && p->in->policy->fuse &&
	       plan_allows(p, DATASET_METHOD_MOUNT) && !f->is_remote &&
	       (f->format != FORMAT_SQUASHFS || p->in->able.can_mount) &&
	       (f->kind != SOURCE_FILE || p->plan->method == DATASET_METHOD_EXTRACT);
}

/* Adds a hint such as "try more --mem, :ssd or a squashfs image", with what could help for this
 * tier. */
static int hint_space(const struct planner *p, const char *tier, int r, struct error *err)
{
	const struct plan_space *s = get_space(p, tier), *ssd = get_space(p, PLAN_TIER_DISK);
	bool memory = !strcmp(tier, PLAN_TIER_MEMORY);
	const char *ways[3];
	size_t n = 0;

	if (memory && p->in->policy->memory.job_limit && !(s && s->of_node))
		ways[n++] = "more --mem";
	if (memory && !plan_is_dest(p, "auto") && ssd && ssd->present)
		ways[n++] = ":ssd";
	if (may_be_image(p))
		ways[n++] = p->facts->format == FORMAT_SQUASHFS ? "method=mount"
								: "a squashfs image";
	if (n == 0)
		ways[n++] = memory ? "a node with more memory" : "another DEST";
	return error_set_hint(err, r, "try %s%s%s%s%s", ways[0], n > 2 ? ", " : "",
			      n > 2 ? ways[1] : "", n > 1 ? " or " : "", n > 1 ? ways[n - 1] : "");
}

int plan_hint_space(const struct plan *plan, const struct plan_input *in, int r, struct error *err)
{
	struct planner p = {
		.in = in, .ds = in->ds, .facts = in->facts, .plan = (struct plan *)plan
	};

	return hint_space(&p, plan->tier, r, err);
}

static int refuse_tier(const struct planner *p, const char *tier, struct error *err)
{
	const char *allowed = p->in->policy->tiers;

	error_exit(err, STAGE_EXIT_REFUSED, EPERM,
		   "%s is not here, or the site's rule %s does not let this source go there",
		   plan_tier_to_string(tier), p->in->policy->rule);
	if (*allowed)
		return error_set_hint(err, -EPERM, "it allows %s", allowed);
	return error_set_hint(err, -EPERM, "leave DEST out");
}

int plan_refuse_space(const struct planner *p, const char *tier, struct error *err)
{
	const struct plan_space *s = get_space(p, tier);
	char need[PARSE_SIZE_TEXT];

	if (!s || !s->present)
		return refuse_tier(p, tier, err);
	if (s->known && s->free_bytes >= p->plan->need_bytes)
		error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC,
			   "needs %llu files, %s has room for %llu",
			   (unsigned long long)p->plan->need_files, plan_tier_to_string(tier),
			   (unsigned long long)s->free_files);
	else
		error_exit(err, STAGE_EXIT_NO_SPACE, ENOSPC, "needs %s, %s",
			   size_to_string(p->plan->need_bytes, need), s->limit);
	return hint_space(p, tier, -ENOSPC, err);
}
