/*
 * The budget counts by the tier's name, also if the worker asks for a path below the tier's Path,
 * because all these places share its Quota. A worker uses one tier at a time. It has emptied its
 * tier before it asks for another one.
 */
#include "daemon/stagingd/grant.h"

#include <stdbool.h>
#include <string.h>

#include "common/config/conf.h"
#include "common/policy/source-rules.h"
#include "common/policy/memory-limits.h"
#include "common/protocol/proto.h"
#include "common/protocol/rundir.h"
#include "common/util/log.h"
#include "common/util/memory.h"
#include "common/util/parse.h"
#include "common/util/strutil.h"
#include "daemon/stagingd/budget.h"
#include "daemon/stagingd/job-info.h"
#include "daemon/stagingd/job-memory.h"
#include "daemon/stagingd/stage.h"

static const struct conf_tier *find_tier(const struct grants *g, const char *tier)
{
	const struct conf_expand e = job_info_get_expand(g->info);

	return tier[0] == '/' ? source_rules_find_tier(g->info->conf, &e, tier)
			      : conf_get_tier(g->info->conf, tier);
}

void grant_get_facts(const struct grants *g, const struct conf_tier *t, const char *tier,
		     struct memory_facts *f)
{
	memory_facts_init(f, g->info->conf, t);
	f->tier_reserved = budget_get_reserved(g->budget, tier);
	f->all_reserved = budget_get_reserved(g->budget, NULL);
	if (!f->memory)
		return;
	f->job_limit = g->memory->limit;
	f->job_used = g->memory->used + job_memory_get_servers(g->memory);
	f->unwritten = budget_get_unwritten(g->budget, tier);
}

static void measure(struct memory_facts *f, const struct grants *g)
{
	_cleanup_(freep) char *place = NULL;

	if (memory_read_node(&f->node_total, &f->node_available) < 0)
		f->node_total = f->node_available = 0;
	place = strutil_printf("%s/" RUNDIR_MEMORY, g->info->rundir);
	if (place && memory_read_fs(place, &f->fs_free) < 0)
		f->fs_free = MEMORY_LIMITS_NONE;
}

/* Returns the bytes that may still be granted. tier: the name under which the budget counts t; t is
 * NULL for a place outside of all tiers. */
static uint64_t get_have(const struct grants *g, const struct conf_tier *t, const char *tier,
			 enum memory_limit *limitp)
{
	struct memory_facts f;

	grant_get_facts(g, t, tier, &f);
	if (f.memory)
		measure(&f, g);
	return memory_limits_get_have(&f, limitp);
}

void grant_memory_to_kv(const struct grants *g, struct kv *kv)
{
	const struct conf_tier *t = conf_get_tier(g->info->conf, "shm");
	uint64_t taken = job_memory_get_servers(g->memory), have;
	enum memory_limit limit;

	if (!t)
		return;
	taken += budget_get_reserved(g->budget, t->name);
	have = get_have(g, t, t->name, &limit);
	if (!taken || have == MEMORY_LIMITS_NONE)
		return;
	kv_set_u64(kv, "memtaken", taken);
	kv_set_u64(kv, "memmost", taken + have);
	kv_set(kv, "membound", memory_limit_to_string(limit));
}

static bool has_room_for_files(const struct grants *g, uint64_t files)
{
	uint64_t max = g->info->conf->max_files, used = budget_get_files(g->budget);

	return max == 0 || (used <= max && files <= max - used);
}

void grant_move(const struct grants *g, const struct stage *stage, const char *tier)
{
	const struct conf_tier *t = find_tier(g, tier);

	budget_move(g->budget, stage->id, t ? t->name : tier);
}

struct kv *grant_ask(const struct grants *g, const struct stage *stage, const char *tier,
		     uint64_t bytes, uint64_t files)
{
	const struct conf_tier *t = find_tier(g, tier);
	const char *name = t ? t->name : tier;
	struct kv *kv = proto_new(PROTO_OP_GRANT);
	char need[PARSE_SIZE_TEXT], left[PARSE_SIZE_TEXT];
	enum memory_limit limit;
	uint64_t have;
	bool ok;

	if (!kv)
		return NULL;
	have = get_have(g, t, name, &limit);
	ok = bytes <= have && has_room_for_files(g, files) &&
	     budget_grant(g->budget, stage->id, name, bytes, files) == 0;
	kv_set_u64(kv, "ok", ok);
	kv_set_u64(kv, "have", ok ? have - bytes : have);
	if (ok)
		return kv;
	size_to_string(bytes, need);
	size_to_string(have, left);
	if (bytes > have)
		kv_setf(kv, "why", "needs %s in %s, %s leaves %s", need, tier,
			memory_limit_to_string(limit), left);
	else
		kv_setf(kv, "why", "more files than MaxFiles=%llu of this site",
			(unsigned long long)g->info->conf->max_files);
	log_print(LOG_LEVEL_INFO, stage->dataset->name, "not granted: %s", kv_get(kv, "why"));
	return kv;
}
