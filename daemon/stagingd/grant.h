/*
 * grant: the answer to a worker that asks for space in a tier.
 */
#pragma once

#include <stdint.h>

struct budget;
struct conf_tier;
struct job_info;
struct job_memory;
struct kv;
struct memory_facts;
struct stage;

/* What an answer depends on */
struct grants {
	const struct job_info *info;
	const struct job_memory *memory;
	struct budget *budget;
};

/* Asks the budget and, where there is room, notes it down. The `grant` message; NULL without
 * memory. */
struct kv *grant_ask(const struct grants *g, const struct stage *stage, const char *tier,
		     uint64_t bytes, uint64_t files);

/* What the dataset has in other tiers is given back. */
void grant_move(const struct grants *g, const struct stage *stage, const char *tier);

/* Sets memtaken, memmost and membound of docs/protocol.md, if a dataset takes memory. */
void grant_memory_to_kv(const struct grants *g, struct kv *kv);

/* What the configuration and the ledger say about a tier; what is measured is not in it. tier: as
 * the ledger has t, which is NULL for a place that is in no tier. */
void grant_get_facts(const struct grants *g, const struct conf_tier *t, const char *tier,
		     struct memory_facts *f);
