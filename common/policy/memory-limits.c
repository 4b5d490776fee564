/*
 * Memory has five limits: the job's memory, the site's share of that and of the node's, what must
 * stay free on the node, and the file system that holds it. The tightest one decides and is named.
 *
 * Granted bytes that are not written yet are not visible in the node's MemAvailable and the file
 * system's free blocks, so they are subtracted from these two. Granted bytes that are written are
 * visible there, and must not be subtracted twice.
 */
#include "common/policy/memory-limits.h"

#include "common/config/conf.h"
#include "common/protocol/kv.h"

const char *memory_limit_to_string(enum memory_limit limit)
{
	static const char *const names[] = {
		[MEMORY_LIMIT_NONE] = "no limit",
		[MEMORY_LIMIT_JOB] = "90 % of the job's memory (--mem)",
		[MEMORY_LIMIT_PERCENT] = "MaxMemoryPercent of this node",
		[MEMORY_LIMIT_JOB_PERCENT] = "MaxMemoryPercent of the job's memory (--mem)",
		[MEMORY_LIMIT_KEEP_FREE] = "KeepFreeMemory of this node",
		[MEMORY_LIMIT_FILESYSTEM] = "the room in the job's tmpfs",
		[MEMORY_LIMIT_MAX_BYTES] = "MaxBytes of this site",
		[MEMORY_LIMIT_QUOTA] = "the tier's Quota",
	};

	_Static_assert(MEMORY_LIMITS_JOB_SHARE == 90, "the name above has the number");
	return names[limit];
}

/* MEMORY_LIMIT_FILESYSTEM is included because the size of a job's tmpfs is the job's limit. */
bool memory_limit_is_of_job(enum memory_limit limit)
{
	return limit == MEMORY_LIMIT_JOB || limit == MEMORY_LIMIT_JOB_PERCENT ||
	       limit == MEMORY_LIMIT_FILESYSTEM;
}

void memory_facts_init(struct memory_facts *f, const struct conf *conf, const struct conf_tier *t)
{
	*f = (struct memory_facts){
		.memory = t && t->kind == CONF_TIER_MEMORY,
		.max_percent = conf->max_memory_percent,
		.keep_free = conf->keep_free_memory,
		.max_bytes = conf->max_bytes,
		.tier_quota = t ? t->quota : 0,
		.fs_free = MEMORY_LIMITS_NONE,
	};
}

void memory_facts_to_kv(const struct memory_facts *f, struct kv *kv)
{
	kv_set_u64(kv, "memlimit", f->job_limit);
	kv_set_u64(kv, "memused", f->job_used);
	kv_set_u64(kv, "mempercent", f->max_percent);
	kv_set_u64(kv, "keepfree", f->keep_free);
	kv_set_u64(kv, "jobbytes", f->max_bytes);
	kv_set_u64(kv, "memquota", f->tier_quota);
	kv_set_u64(kv, "memreserved", f->tier_reserved);
	kv_set_u64(kv, "reserved", f->all_reserved);
	kv_set_u64(kv, "memunwritten", f->unwritten);
}

void memory_facts_from_kv(struct memory_facts *f, const struct kv *kv)
{
	*f = (struct memory_facts){
		.memory = true,
		.job_limit = kv_get_u64(kv, "memlimit", 0),
		.job_used = kv_get_u64(kv, "memused", 0),
		.max_percent = (uint32_t)kv_get_u64(kv, "mempercent", 0),
		.keep_free = kv_get_u64(kv, "keepfree", 0),
		.max_bytes = kv_get_u64(kv, "jobbytes", 0),
		.tier_quota = kv_get_u64(kv, "memquota", 0),
		.tier_reserved = kv_get_u64(kv, "memreserved", 0),
		.all_reserved = kv_get_u64(kv, "reserved", 0),
		.unwritten = kv_get_u64(kv, "memunwritten", 0),
		.fs_free = MEMORY_LIMITS_NONE,
	};
}

static uint64_t subtract(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t memory_limits_get_share(uint64_t size, uint32_t percent)
{
	return size / 100 * percent + size % 100 * percent / 100;
}

struct tightest {
	uint64_t have;
	enum memory_limit limit;
};

static void tighten(struct tightest *t, uint64_t have, enum memory_limit limit)
{
	if (have >= t->have)
		return;
	t->have = have;
	t->limit = limit;
}

static void tighten_job(struct tightest *t, const struct memory_facts *f)
{
	uint64_t share = memory_limits_get_share(f->job_limit, MEMORY_LIMITS_JOB_SHARE);

	tighten(t, subtract(subtract(share, f->job_used), f->tier_reserved), MEMORY_LIMIT_JOB);
	if (!f->max_percent)
		return;
	share = memory_limits_get_share(f->job_limit, f->max_percent);
	tighten(t, subtract(share, f->tier_reserved), MEMORY_LIMIT_JOB_PERCENT);
}

static void tighten_node(struct tightest *t, const struct memory_facts *f)
{
	uint64_t share = memory_limits_get_share(f->node_total, f->max_percent);

	if (f->max_percent)
		tighten(t, subtract(share, f->tier_reserved), MEMORY_LIMIT_PERCENT);
	tighten(t, subtract(subtract(f->node_available, f->keep_free), f->unwritten),
		MEMORY_LIMIT_KEEP_FREE);
}

static void tighten_memory(struct tightest *t, const struct memory_facts *f)
{
	if (f->job_limit)
		tighten_job(t, f);
	if (f->node_total)
		tighten_node(t, f);
	if (f->fs_free != MEMORY_LIMITS_NONE)
		tighten(t, subtract(f->fs_free, f->unwritten), MEMORY_LIMIT_FILESYSTEM);
}

uint64_t memory_limits_get_have(const struct memory_facts *f, enum memory_limit *limitp)
{
	struct tightest t = { .have = MEMORY_LIMITS_NONE, .limit = MEMORY_LIMIT_NONE };

	if (f->memory)
		tighten_memory(&t, f);
	if (f->max_bytes)
		tighten(&t, subtract(f->max_bytes, f->all_reserved), MEMORY_LIMIT_MAX_BYTES);
	if (f->tier_quota)
		tighten(&t, subtract(f->tier_quota, f->tier_reserved), MEMORY_LIMIT_QUOTA);
	if (limitp)
		*limitp = t.limit;
	return t.have;
}
