/*
 * budget: how many bytes datasets may still take in a tier, and the ledger of what was granted.
 *
 * Memory counts five times: the job's limit, the site's share of that and of the node, what the node
 * must keep free, and the file system that holds it. The tightest of them decides and is named.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cleanup.h"

#define BUDGET_UNLIMITED UINT64_MAX
#define BUDGET_JOB_SHARE 90 /* percent of the job's memory that datasets and the job may fill */

enum budget_limit {
	BUDGET_LIMIT_NONE,
	BUDGET_LIMIT_JOB,        /* the job's memory (--mem) */
	BUDGET_LIMIT_PERCENT,    /* MaxMemoryPercent of the node */
	BUDGET_LIMIT_JOB_PERCENT, /* the same share of the job's memory */
	BUDGET_LIMIT_KEEP_FREE,  /* KeepFreeMemory */
	BUDGET_LIMIT_FILESYSTEM, /* room in the tmpfs */
	BUDGET_LIMIT_MAX_BYTES,  /* MaxBytes of [limits] */
	BUDGET_LIMIT_QUOTA,      /* Quota of the tier */
};

/* "the job's memory", "MaxMemoryPercent", … for sentences. */
const char *budget_limit_to_string(enum budget_limit limit);

struct budget_facts {
	bool memory;             /* the tier is memory: the first block counts too */
	uint64_t job_limit;      /* bytes, 0: not charged to the job */
	uint64_t job_used;       /* by the job before the first dataset */
	uint64_t node_total, node_available;
	uint32_t max_percent;    /* 0: none */
	uint64_t keep_free;
	uint64_t fs_free;        /* BUDGET_UNLIMITED: not known */
	uint64_t unwritten;      /* granted in memory, not yet there */

	uint64_t tier_reserved;  /* granted in this tier */
	uint64_t tier_quota;     /* 0: none */
	uint64_t all_reserved;   /* granted in all tiers */
	uint64_t max_bytes;      /* 0: none */
};

/* What may still be granted in the tier. *limitp (may be NULL): which limit is the tightest. */
uint64_t budget_get_have(const struct budget_facts *f, enum budget_limit *limitp);

struct budget; /* the ledger */

int budget_new(struct budget **bp);
void budget_free(struct budget *b);
DEFINE_FREEP(struct budget, budget_free)

/* Adds to what owner has in the tier. -ENOMEM. */
int budget_grant(struct budget *b, uint32_t owner, const char *tier, uint64_t bytes,
		 uint64_t files);
/* So much of what owner was granted is there. */
void budget_set_written(struct budget *b, uint32_t owner, uint64_t bytes);
/* Everything of owner is given back. */
void budget_return(struct budget *b, uint32_t owner);
/* What owner has in other tiers is given back: it has gone to this one. */
void budget_move(struct budget *b, uint32_t owner, const char *tier);

/* Sums; tier NULL: all. */
uint64_t budget_get_reserved(const struct budget *b, const char *tier);
uint64_t budget_get_unwritten(const struct budget *b, const char *tier);
uint64_t budget_get_files(const struct budget *b);
