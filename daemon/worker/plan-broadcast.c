#include "daemon/worker/plan-broadcast.h"

#include <stdio.h>
#include <string.h>

#include "common/util/parse.h"
#include "daemon/worker/plan.h"

/* Nothing is read from one place by all nodes, or not as a whole. */
static bool is_no_question(const struct plan *plan, const struct plan_input *in)
{
	return in->policy->fan_min_nodes == 0 || in->policy->n_nodes < 2 || !in->policy->keeper ||
	       in->facts->is_remote || in->facts->bytes == 0 ||
	       !strcmp(plan->tier, PLAN_TIER_SOURCE) ||
	       (plan->method == DATASET_METHOD_MOUNT && !plan->copy_first);
}

const char *plan_broadcast_refuse(const struct plan *plan, const struct plan_input *in,
				  uint64_t *extrap, char buf[static PLAN_BROADCAST_WHY_SIZE])
{
	const struct plan_space *space = plan_get_space((struct plan_input *)in, plan->tier);
	const struct policy *pol = in->policy;
	const struct facts *f = in->facts;
	char size[PARSE_SIZE_TEXT], least[PARSE_SIZE_TEXT];
	uint64_t extra = plan->method == DATASET_METHOD_EXTRACT ? f->bytes : PLAN_BROADCAST_STEP;

	if (is_no_question(plan, in))
		return "";
	if (f->kind != SOURCE_FILE)
		return "only one file, archive or image is passed on";
	if (strcmp(plan->tier, PLAN_TIER_MEMORY))
		return "only what goes to memory is passed on";
	if (pol->mem_keep_ms)
		return "some nodes may have what was kept";
	if (pol->max_rate)
		return "sbcast does not keep the rule's MaxRate";
	if (!in->able.can_broadcast)
		return "passing it on has failed";
	if (pol->n_nodes < pol->fan_min_nodes) {
		snprintf(buf, PLAN_BROADCAST_WHY_SIZE, "the job has %u nodes, MinNodes is %u",
			 pol->n_nodes, pol->fan_min_nodes);
		return buf;
	}
	if (!pol->fan_always && f->bytes < PLAN_BROADCAST_MIN_SIZE) {
		snprintf(buf, PLAN_BROADCAST_WHY_SIZE,
			 "%s is less than %s, passing it on would not pay",
			 size_to_string(f->bytes, size),
			 size_to_string(PLAN_BROADCAST_MIN_SIZE, least));
		return buf;
	}
	if (space && space->known &&
	    (space->free_bytes < plan->need_bytes ||
	     space->free_bytes - plan->need_bytes < extra)) {
		snprintf(buf, PLAN_BROADCAST_WHY_SIZE, "passing it on takes %s more memory, %s",
			 size_to_string(extra, size), space->limit);
		return buf;
	}
	*extrap = extra;
	return NULL;
}
