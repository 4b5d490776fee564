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

/* Adds to the owner's grant in the tier. Returns 0 or -ENOMEM. */
int budget_grant(struct budget *b, uint32_t owner, const char *tier, uint64_t bytes,
		 uint64_t files);
/* Sets how many bytes of its newest grant the owner has written. */
void budget_set_written(struct budget *b, uint32_t owner, uint64_t bytes);
/* Reduces the owner's last grant by bytes that it does not need. */
void budget_give_back(struct budget *b, uint32_t owner, uint64_t bytes);
/* Releases all grants of the owner. */
void budget_return(struct budget *b, uint32_t owner);
/* Releases the owner's grants in all other tiers, because its data now goes to this one. */
void budget_move(struct budget *b, uint32_t owner, const char *tier);

/* Return sums over all owners. tier NULL: over all tiers. */
uint64_t budget_get_reserved(const struct budget *b, const char *tier);
uint64_t budget_get_unwritten(const struct budget *b, const char *tier);
uint64_t budget_get_files(const struct budget *b);
