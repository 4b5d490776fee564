/*
 * plan-internal: functions that plan.c and the other plan-*.c share. No other file includes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "daemon/worker/plan.h"

struct planner {
	const struct plan_input *in;
	const struct dataset *ds;
	const struct facts *facts;
	struct plan *plan;
	size_t why_size;
};

/* Adds a line to the plan's reasons. A line that does not fit is left out. */
void plan_why(struct planner *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns whether the site's rule allows that method. */
bool plan_allows(const struct planner *p, enum dataset_method m);
bool plan_is_plain_tar(const struct planner *p);
/* Returns whether the source has an index, or one can be made from its headers. */
bool plan_is_mountable(const struct planner *p);
/* Returns whether the source can be mounted: the code supports it, and this node and the site's
 * rule allow it. */
bool plan_can_mount(const struct planner *p);
/* Returns whether the user's DEST is that word; without DEST, it is "auto". */
bool plan_is_dest(const struct planner *p, const char *word);

/* Sets the plan's method and kind. Returns 0, or an error with a hint if the method is not possible
 * for this source, or other options do not fit it. */
int plan_choose_method(struct planner *p, struct error *err);

/* Refuses the dataset, because it does not fit into that tier, or the tier is not here. Reports for
 * example: "needs 148 GiB, datasets get at most 90 % of the job's memory, 62 GiB left; try more
 * --mem, :ssd or a squashfs image". */
int plan_refuse_space(const struct planner *p, const char *tier, struct error *err);
/* Adds a hint to an error about the limit for one dataset. Returns -EDQUOT. */
int plan_hint_limit(const struct planner *p, struct error *err);
