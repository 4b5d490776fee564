/*
 * budget: counts the bytes that the datasets of the job were granted in each tier, and how many of
 * them are written. common/policy/memory-limits.h computes what may still be granted.
 */
#pragma once

#include <stdint.h>

#include "common/util/cleanup.h"

struct budget;

int budget_new(struct budget **bp);
void budget_free(struct budget *b);
DEFINE_FREEP(struct budget, budget_free)

/* Adds to what owner has in the tier. -ENOMEM. */
int budget_grant(struct budget *b, uint32_t owner, const char *tier, uint64_t bytes,
		 uint64_t files);
/* So much of what owner was granted is there. */
void budget_set_written(struct budget *b, uint32_t owner, uint64_t bytes);
/* So much of what owner was granted last is not needed. */
void budget_give_back(struct budget *b, uint32_t owner, uint64_t bytes);
/* Everything of owner is given back. */
void budget_return(struct budget *b, uint32_t owner);
/* What owner has in other tiers is given back: it has gone to this one. */
void budget_move(struct budget *b, uint32_t owner, const char *tier);

/* Sums; tier NULL: all. */
uint64_t budget_get_reserved(const struct budget *b, const char *tier);
uint64_t budget_get_unwritten(const struct budget *b, const char *tier);
uint64_t budget_get_files(const struct budget *b);
