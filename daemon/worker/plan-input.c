/* Functions that the planner's files share: questions about their input, and the lines with the
 * reasons. */
#include "daemon/worker/plan-internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/config/conf.h"

void plan_why(struct planner *p, const char *fmt, ...)
{
	size_t left = sizeof(p->plan->why) - p->why_size;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(p->plan->why + p->why_size, left, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n + 2 > left)
		p->plan->why[p->why_size] = '\0'; /* add only complete lines */
	else
		p->why_size += (size_t)snprintf(p->plan->why + p->why_size + n, 2, "\n") +
			       (size_t)n;
}

struct plan_space *plan_get_space(struct plan_input *in, const char *tier)
{
	for (size_t i = 0; i < in->n_spaces; i++) {
		if (!strcmp(in->spaces[i].tier, tier))
			return &in->spaces[i];
	}
	return NULL;
}

bool plan_allows(const struct planner *p, enum dataset_method m)
{
	const char *methods = p->in->policy->methods;

	return !*methods || !strcmp(methods, "*") ||
	       conf_list_has(methods, dataset_method_to_string(m));
}

bool plan_is_dest(const struct planner *p, const char *word)
{
	const char *dest = p->ds->dest ? p->ds->dest : "auto";

	return !strcmp(dest, word);
}

const char *plan_tier_to_string(const char *tier)
{
	return !strcmp(tier, PLAN_TIER_MEMORY) ? "memory" : tier;
}
