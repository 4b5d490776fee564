/*
 * plan-broadcast: is a dataset read once, by the job's first node, and passed on to the others by
 * sbcast? Pure, as plan.h, which asks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct plan;
struct plan_input;

/* From here on under Mode=auto: for less, nodes that wait for each other before the first byte lose
 * more than they spare (docs/scaling.md). */
#define PLAN_BROADCAST_MIN_SIZE (64ULL << 20)
/* What is copied out of the file that came is freed there at once: so much is twice there. */
#define PLAN_BROADCAST_STEP (16ULL << 20)
#define PLAN_BROADCAST_FILES 4

#define PLAN_BROADCAST_WHY_SIZE 256

/* plan says method, tier and need already. NULL: it is passed on, and takes *extrap bytes more
 * while it is. Else why not, in buf or constant; "" where nobody would ask. */
const char *plan_broadcast_refuse(const struct plan *plan, const struct plan_input *in,
				  uint64_t *extrap, char buf[static PLAN_BROADCAST_WHY_SIZE]);
