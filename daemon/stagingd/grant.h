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

/* The parts of the job that an answer depends on */
struct grants {
	const struct job_info *info;
	const struct job_memory *memory;
	struct budget *budget;
};

/* Decides whether the worker gets the space, and adds a grant to the budget if it does. Returns the
 * `grant` message, or NULL if out of memory. */
struct kv *grant_ask(const struct grants *g, const struct stage *stage, const char *tier,
		     uint64_t bytes, uint64_t files);

/* Releases what the dataset was granted in other tiers than this one. */
void grant_move(const struct grants *g, const struct stage *stage, const char *tier);

/* Sets memtaken, memmost and membound of docs/protocol.md, if a dataset takes memory. */
void grant_memory_to_kv(const struct grants *g, struct kv *kv);

/* Fills in what the configuration and the budget say about a tier, without measured values. tier:
 * the name under which the budget counts t; t is NULL for a place outside of all tiers. */
void grant_get_facts(const struct grants *g, const struct conf_tier *t, const char *tier,
		     struct memory_facts *f);
