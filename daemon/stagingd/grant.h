/*
 * grant: the answer to a worker that wants room in a tier.
 */
#pragma once

#include <stdint.h>

struct conf_tier;
struct job;
struct kv;
struct memory_facts;
struct stage;

/* Asks the budget and, where there is room, notes it down. The `grant` message; NULL without
 * memory. */
struct kv *grant_ask(struct job *job, const struct stage *stage, const char *tier, uint64_t bytes,
		     uint64_t files);

/* What the dataset has in other tiers is given back. */
void grant_move(struct job *job, const struct stage *stage, const char *tier);

/* Sets memtaken, memmost and membound of docs/protocol.md, if a dataset takes memory. */
void grant_memory_to_kv(const struct job *job, struct kv *kv);

/* What the configuration and the ledger say about a tier; what is measured is not in it. tier: as
 * the ledger has t, which is NULL for a place that is in no tier. */
void grant_get_facts(const struct job *job, const struct conf_tier *t, const char *tier,
		     struct memory_facts *f);
