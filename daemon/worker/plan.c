/*
 * The planner makes three decisions in this order: the method (plan-method.c), the space that is
 * needed (set_need), and the place (choose_place). Each decision adds a line to `why`, so that
 * explain can print the reasons. The size of compressed data may be an estimate. If the estimate
 * does not fit, the dataset is not refused: a second round uses the least that the archive can
 * need, and the writer reserves more when it needs it.
 */
#include "daemon/worker/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/config/conf.h"
#include "common/util/cleanup.h"
#include "common/util/error.h"
#include "common/util/parse.h"
#include "daemon/worker/plan-internal.h"

static const struct plan_space *get_space(const struct planner *p, const char *tier)
{
	return plan_get_space((struct plan_input *)p->in, tier);
}

static bool selects(const struct planner *p)
{
	return p->ds->n_include || p->ds->n_exclude || p->ds->subdir;
}

/* Returns whether the needed space is only an estimate. A selection from an archive may need less
 * than the whole. */
static bool is_guess(const struct planner *p)
{
	return p->plan->method == DATASET_METHOD_EXTRACT &&
	       (!p->facts->extract_exact || selects(p));
}

/* ---- the needed space ---- */

/* Refuses an estimate that is above the limit in any case. An archive does not get smaller when it
 * is opened, except for its headers, for which an eighth is subtracted. An estimate below the
 * archive's size counts, too, because the archive may consist of headers mostly. */
static int check_guess(const struct planner *p, struct error *err)
{
	const struct policy *pol = p->in->policy;
	const struct facts *f = p->facts;
	uint64_t least = f->bytes < f->extract_bytes ? f->bytes : f->extract_bytes;
	char need[PARSE_SIZE_TEXT], max[PARSE_SIZE_TEXT];

	least -= least / 8;
	if (selects(p) || !pol->max_bytes || least <= pol->max_bytes)
		return 0;
	error_exit(err, STAGE_EXIT_NO_SPACE, EDQUOT,
		   "takes at least %s, the limit for one dataset is %s",
		   size_to_string(least, need), size_to_string(pol->max_bytes, max));
	return plan_hint_limit(p, err);
}

/* Returns whether the dataset takes no space, so that the limits for one dataset do not apply: it
 * is a link, or is mounted where it is. With hydrate=copy it is copied, too. */
static bool stays_in_place(const struct planner *p)
{
	if (p->plan->method == DATASET_METHOD_LINK)
		return true;
	return p->plan->method == DATASET_METHOD_MOUNT && !p->facts->is_remote && !p->ds->hydrate &&
	       (plan_is_dest(p, "auto") || plan_is_dest(p, PLAN_TIER_SOURCE));
}

static int set_need(struct planner *p, struct error *err)
{
	const struct facts *f = p->facts;
	struct plan *plan = p->plan;
	bool extract = plan->method == DATASET_METHOD_EXTRACT;
	const struct policy *pol = p->in->policy;
	char need[PARSE_SIZE_TEXT], max[PARSE_SIZE_TEXT];

	plan->need_bytes = extract ? f->extract_bytes : f->copy_bytes;
	plan->need_files = extract ? f->extract_files : f->copy_files;
	if (extract && !f->extract_exact)
		plan_why(p, "its unpacked size is not known in advance; about %s is an estimate",
			 size_to_string(plan->need_bytes, need));
	else if (is_guess(p))
		plan_why(p, "what is selected takes %s at most",
			 size_to_string(plan->need_bytes, need));
	if (stays_in_place(p))
		return 0;
	if (is_guess(p))
		return check_guess(p, err);
	if (pol->max_bytes && plan->need_bytes > pol->max_bytes)
		error_exit(err, STAGE_EXIT_NO_SPACE, EDQUOT,
			   "takes %s, the limit for one dataset is %s",
			   size_to_string(plan->need_bytes, need),
			   size_to_string(pol->max_bytes, max));
	else if (pol->max_files && plan->need_files > pol->max_files)
		error_exit(err, STAGE_EXIT_NO_SPACE, EDQUOT,
			   "has %llu files, the limit for one dataset is %llu",
			   (unsigned long long)plan->need_files,
			   (unsigned long long)pol->max_files);
	else
		return 0;
	return plan_hint_limit(p, err);
}

/* ---- the place ---- */

/* Chooses the tier if the dataset fits. say: add a line to `why`. */
static bool try_tier(struct planner *p, const char *tier, bool say)
{
	const struct plan_space *s = get_space(p, tier);
	struct plan *plan = p->plan;
	char need[PARSE_SIZE_TEXT];

	if (!s || !s->present) {
		if (say)
			plan_why(p, "%s: not here, or not for this source",
				 plan_tier_to_string(tier));
		return false;
	}
	if (s->known && s->free_bytes < plan->need_bytes) {
		if (say)
			plan_why(p, "%s: needs %s, %s", plan_tier_to_string(tier),
				 size_to_string(plan->need_bytes, need), s->limit);
		return false;
	}
	if (s->known && s->free_files < plan->need_files) {
		if (say)
			plan_why(p, "%s: needs %llu files, %llu can be made",
				 plan_tier_to_string(tier), (unsigned long long)plan->need_files,
				 (unsigned long long)s->free_files);
		return false;
	}
	snprintf(plan->tier, sizeof(plan->tier), "%s", tier);
	plan_why(p, "%s: %s%s", plan_tier_to_string(tier),
		 s->known ? "fits, " : "chosen, its free space is checked when it is staged",
		 s->known ? s->limit : "");
	return true;
}

static bool is_word(const char *text, size_t n, const char *word)
{
	return n == strlen(word) && !memcmp(text, word, n);
}

/* Returns whether the list names the disk, and before the memory. Its words are compared as a
 * whole: a tier may be called ssd2. */
static bool lists_disk_first(const char *list)
{
	size_t n;

	for (; *list; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (is_word(list, n, PLAN_TIER_MEMORY))
			return false;
		if (is_word(list, n, PLAN_TIER_DISK))
			return true;
	}
	return false;
}

/* Returns the n-th tier that `auto` tries, or NULL. The order is that of the rule; the shared tier
 * is not tried. A dataset that is to be kept tries the disk first. */
static const char *auto_tier(const struct planner *p, size_t n)
{
	static const char *const tiers[] = { PLAN_TIER_MEMORY, PLAN_TIER_DISK };
	bool disk_first = (p->in->policy->keep_ms > 0 && p->plan->method != DATASET_METHOD_MOUNT) ||
			  lists_disk_first(p->in->policy->tiers);

	return n < 2 ? tiers[disk_first ? 1 - n : n] : NULL;
}

static bool try_tiers(struct planner *p, bool say)
{
	const char *tier;

	if (!plan_is_dest(p, "auto"))
		return try_tier(p, p->ds->dest, say);
	for (size_t i = 0; (tier = auto_tier(p, i)); i++) {
		if (try_tier(p, tier, say))
			return true;
	}
	return false;
}

/* Tries again with the least space that the archive can need, because it does not get smaller when
 * it is opened. */
static bool try_again_at_least(struct planner *p)
{
	struct plan *plan = p->plan;

	uint64_t least = selects(p) ? 0 : p->facts->bytes;

	if (!is_guess(p) || plan->need_bytes <= least)
		return false;
	plan->need_bytes = least;
	if (!try_tiers(p, false))
		return false;
	plan_why(p, "tried all the same: %s",
		 selects(p) ? "what is selected may be less" : "the size is an estimate");
	return true;
}

/* Returns whether a link may replace the plan. Only a copy may become a link, and only if the link
 * shows the same files. */
static bool may_become_link(const struct planner *p)
{
	const struct dataset *ds = p->ds;

	return ds->method == DATASET_METHOD_AUTO && p->plan->method == DATASET_METHOD_COPY &&
	       plan_is_dest(p, "auto") && p->in->able.can_link &&
	       plan_allows(p, DATASET_METHOD_LINK) && ds->n_include == 0 && ds->n_exclude == 0 &&
	       ds->verify != DATASET_VERIFY_SHA256 &&
	       (ds->shard == DATASET_SHARD_ALL || p->facts->kind == SOURCE_SET);
}

/* Returns whether a mount may replace the plan: `auto` would extract the archive, and a mount shows
 * the same files. */
static bool may_be_mounted(const struct planner *p)
{
	const struct dataset *ds = p->ds;

	return ds->method == DATASET_METHOD_AUTO && p->plan->method == DATASET_METHOD_EXTRACT &&
	       plan_is_mountable(p) && !p->facts->is_remote && plan_is_dest(p, "auto") &&
	       plan_can_mount(p) && ds->n_include == 0 && ds->n_exclude == 0 && !ds->strip &&
	       (!ds->nested || plan_is_plain_tar(p));
}

static void mount_instead(struct planner *p)
{
	struct plan *plan = p->plan;

	plan->method = DATASET_METHOD_MOUNT;
	strcpy(plan->tier, PLAN_TIER_SOURCE);
	snprintf(plan->hint, sizeof(plan->hint),
		 "mounted where it is, because it fits nowhere: its files are read from the source "
		 "and "
		 "can't be changed (with method=extract it is refused)");
	plan_why(p, "%s", plan->hint);
}

static int choose_tier(struct planner *p, struct error *err)
{
	if (try_tiers(p, true) || try_again_at_least(p))
		return 0;
	if (may_be_mounted(p)) {
		mount_instead(p);
		return 0;
	}
	if (!may_become_link(p))
		return plan_refuse_space(p, plan_is_dest(p, "auto") ? auto_tier(p, 0) : p->ds->dest,
					 err);
	plan_why(p, "fits nowhere: a link to the source");
	p->plan->method = DATASET_METHOD_LINK;
	strcpy(p->plan->tier, PLAN_TIER_SOURCE);
	return 0;
}

/* Mounts the image in place, unless the user names a DEST. With hydrate=copy, it is mounted at once
 * and copied in the background. */
static int place_image(struct planner *p, struct error *err)
{
	bool named = !plan_is_dest(p, "auto") && !plan_is_dest(p, PLAN_TIER_SOURCE);
	bool verified = p->ds->verify == DATASET_VERIFY_SHA256;
	bool first = !p->ds->hydrate || verified || p->facts->format != FORMAT_SQUASHFS;

	strcpy(p->plan->tier, PLAN_TIER_SOURCE);
	if (p->facts->is_remote) {
		p->plan->copy_first = true;
		plan_why(p, "it is fetched first: what is mounted has to be here");
		return choose_tier(p, err);
	}
	if (p->ds->hydrate && first && !verified)
		plan_why(p, "an archive is mounted when its copy is there");
	else if (p->ds->hydrate && first)
		plan_why(p, "its checksum is verified first: mounted when the copy is there");
	p->plan->copy_first = first && (named || p->ds->hydrate);
	if (p->ds->hydrate && !named && try_tiers(p, true))
		return 0;
	if (named)
		return choose_tier(p, err);
	p->plan->copy_first = false;
	plan_why(p, "mounted where it is");
	return 0;
}

static int choose_place(struct planner *p, struct error *err)
{
	struct plan *plan = p->plan;

	if (plan->method == DATASET_METHOD_MOUNT)
		return place_image(p, err);
	if (plan->method == DATASET_METHOD_LINK) {
		strcpy(plan->tier, PLAN_TIER_SOURCE);
		return 0;
	}
	if (plan_is_dest(p, PLAN_TIER_SOURCE))
		return error_set_hint(err,
				      error_set(err, EINVAL,
						"DEST source and method=%s exclude each "
						"other",
						dataset_method_to_string(plan->method)),
				      "leave one of them out");
	return choose_tier(p, err);
}

/* Decides whether the source is read once for all nodes, or by each node. */
static void choose_reader(struct planner *p)
{
	char buf[PLAN_BROADCAST_WHY_SIZE];
	struct plan *plan = p->plan;
	uint64_t extra = 0;
	const char *why = plan_broadcast_refuse(plan, p->in, &extra, buf);

	if (why) {
		if (*why)
			plan_why(p, "each node reads it: %s", why);
		return;
	}
	plan->broadcast = true;
	plan->need_bytes += extra;
	plan->need_files += PLAN_BROADCAST_FILES;
	plan_why(p, "read once, by the first of %u nodes, and passed on by sbcast",
		 p->in->policy->n_nodes);
}

static void write_line(struct planner *p)
{
	struct plan *plan = p->plan;
	const char *tier = plan_tier_to_string(plan->tier);
	bool guess = is_guess(p);
	char need[PARSE_SIZE_TEXT];

	if (!strcmp(plan->tier, PLAN_TIER_SOURCE)) {
		plan->need_bytes = plan->need_files = 0;
		snprintf(plan->line, sizeof(plan->line), "%s",
			 plan->method == DATASET_METHOD_MOUNT ? "mount in place"
							      : "link to the source");
		return;
	}
	size_to_string(plan->need_bytes, need);
	snprintf(plan->line, sizeof(plan->line), "%s%s to %.120s, %s%s%s",
		 plan->copy_first ? "copy, then " : "",
		 plan->method == DATASET_METHOD_MOUNT && !plan->copy_first
			 ? "mount in place, copy in the background"
			 : dataset_method_to_string(plan->method),
		 tier, guess ? "about " : "", need,
		 plan->broadcast ? ", read once for all nodes" : "");
}

/* Tells the user that hydrate=copy does nothing here, unless there is a hint already. */
static void hint_at_hydrate(struct planner *p)
{
	static const char text[] = "hydrate=copy has no effect: it is for data that is mounted";

	if (!p->ds->hydrate || p->plan->method == DATASET_METHOD_MOUNT)
		return;
	plan_why(p, "%s", text);
	if (!p->plan->hint[0])
		strcpy(p->plan->hint, text);
}

int plan_make(struct plan *plan, const struct plan_input *in, struct error *err)
{
	struct planner p = { .in = in, .ds = in->ds, .facts = in->facts, .plan = plan };
	char links[FACTS_LINKS_OUT_SIZE];
	int r;

	*plan = (struct plan){ 0 };
	strcpy(plan->tier, PLAN_TIER_SOURCE);
	r = plan_choose_method(&p, err);
	if (r == 0)
		r = set_need(&p, err);
	if (r == 0)
		r = choose_place(&p, err);
	if (r == 0)
		choose_reader(&p);
	if (r == 0)
		hint_at_hydrate(&p);
	if (r == 0 && plan->method == DATASET_METHOD_COPY && in->facts->n_links_out)
		plan_why(&p, "%s",
			 facts_print_links_out(in->facts->n_links_out, in->facts->link_out, links));
	if (r == 0)
		write_line(&p);
	return r;
}
