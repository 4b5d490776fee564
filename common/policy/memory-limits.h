/*
 * memory-limits: how many bytes datasets may still take in a tier, and which limit decides. Pure
 * functions of a few facts: no file, no clock, no message.
 *
 * Every program that plans, grants or refuses space uses these functions: sbatch and srun (the
 * plugin), stagectl explain, the worker that plans, and stagingd, whose answer is the one that
 * counts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct conf;
struct conf_tier;
struct kv;

#define MEMORY_LIMITS_NONE UINT64_MAX
#define MEMORY_LIMITS_JOB_SHARE                                                                    \
	90 /* percent of the job's memory that the job and its datasets may use together */

enum memory_limit {
	MEMORY_LIMIT_NONE,
	MEMORY_LIMIT_JOB,	  /* MEMORY_LIMITS_JOB_SHARE of the job's memory (--mem) */
	MEMORY_LIMIT_PERCENT,	  /* MaxMemoryPercent of the node */
	MEMORY_LIMIT_JOB_PERCENT, /* MaxMemoryPercent of the job's memory */
	MEMORY_LIMIT_KEEP_FREE,	  /* KeepFreeMemory */
	MEMORY_LIMIT_FILESYSTEM,  /* free space in the tmpfs */
	MEMORY_LIMIT_MAX_BYTES,	  /* MaxBytes of [limits] */
	MEMORY_LIMIT_QUOTA,	  /* Quota of the tier */
};

/* Returns a phrase for sentences: "MaxMemoryPercent of this node", … */
const char *memory_limit_to_string(enum memory_limit limit);

/* Returns whether a job with more --mem would have more space. */
bool memory_limit_is_of_job(enum memory_limit limit);

struct memory_facts {
	bool memory; /* the tier is memory; if false, only MaxBytes and Quota count */

	/* from the job */
	uint64_t job_limit; /* bytes; 0: memory is not charged to the job */
	uint64_t job_used;  /* by the job, before its first dataset is staged */

	/* from the configuration */
	uint32_t max_percent; /* 0: none */
	uint64_t keep_free;
	uint64_t max_bytes;  /* 0: none */
	uint64_t tier_quota; /* 0: none */

	/* space granted to datasets */
	uint64_t tier_reserved; /* granted in this tier */
	uint64_t all_reserved;	/* granted in all tiers */
	uint64_t unwritten;	/* granted in memory and not written yet */

	/* measured */
	uint64_t node_total; /* 0: not known */
	uint64_t node_available;
	uint64_t fs_free; /* MEMORY_LIMITS_NONE: not known */
};

/* Sets the facts that the configuration contains; the others are set to "not known". t: the tier;
 * NULL: none. */
void memory_facts_init(struct memory_facts *f, const struct conf *conf, const struct conf_tier *t);

/* Copy all fields, except the measured ones, to the task of a worker (docs/protocol.md), and
 * back. */
void memory_facts_to_kv(const struct memory_facts *f, struct kv *kv);
void memory_facts_from_kv(struct memory_facts *f, const struct kv *kv);

/* Returns the bytes that may still be granted in the tier. *limitp: the tightest limit; limitp may
 * be NULL. */
uint64_t memory_limits_get_have(const struct memory_facts *f, enum memory_limit *limitp);

/* Returns `percent` percent of size, without overflow. */
uint64_t memory_limits_get_share(uint64_t size, uint32_t percent);
