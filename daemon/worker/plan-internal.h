/*
 * plan-internal: what plan.c, plan-method.c and plan-input.c share. Nobody else includes it.
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

/* Adds a line to the plan's reasons; one that does not fit is left out. */
void plan_why(struct planner *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Does the site's rule allow that method? */
bool plan_allows(const struct planner *p, enum dataset_method m);
bool plan_is_plain_tar(const struct planner *p);
/* Has the source an index inside, or is one made of its headers? */
bool plan_is_mountable(const struct planner *p);
/* Can the source be mounted, by the code, on this node and by the site's rule? */
bool plan_can_mount(const struct planner *p);
/* Is the user's DEST that word? None is "auto". */
bool plan_is_dest(const struct planner *p, const char *word);

/* Sets the plan's method and kind. An error, with its hint, where the source can't be had that way,
 * or what was asked does not go with it. */
int plan_choose_method(struct planner *p, struct error *err);
