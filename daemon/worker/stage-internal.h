/*
 * stage-internal: functions that worker-stage.c, stage-make.c and stage-keep.c share. No other
 * file includes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/dataset/facts.h"
#include "daemon/worker/plan.h"
#include "daemon/worker/worker-stage.h"
#include "daemon/worker/stager.h"

struct ctx;
struct error;
struct job_copy;
struct keep_use;
struct source;
struct target;

struct stage {
	struct ctx *ctx;
	struct source *src;
	struct facts facts;
	struct plan_input in;
	struct plan plan;
	struct target *target;
	struct stager_result result;
	const struct stager *stager;
	struct keep_use *kept; /* place for a kept dataset, found or to be made; NULL: the data
				* is removed with the job */
	bool keep_is_full;     /* no memory is left for kept datasets */
	struct job_copy *copy; /* copy that all nodes of the job share, or NULL */
	char *list;
	char *reserved_in; /* tier of the reservation; NULL: nothing is reserved */
	uint64_t reserved_bytes, reserved_files;
};

static inline bool stage_is_in_memory(const struct stage *s)
{
	return !strcmp(s->plan.tier, PLAN_TIER_MEMORY);
}

/* Sets s->plan from the facts. If the plan needs an estimated size, the stager measures it. */
int stage_plan(struct stage *s, struct error *err);

/* Reserves space. Earlier grants in the same tier stay, so only the missing part is requested.
 * Returns 0 or an error with err set; -ENOSPC: *havep is what is left. */
int stage_claim(struct stage *s, uint64_t bytes, uint64_t files, uint64_t *havep,
		struct error *err);

/* Carries out the plan in s->target. Returns 0 or an error with err set. */
int stage_make(struct stage *s, struct error *err);

/* Uses the copy that another node of the job has made. Returns > 0 if there is one; 0: this node
 * must make it; or an error with err set. */
int stage_take_job_copy(struct stage *s, struct error *err);
/* Uses a dataset that an earlier job of the user has kept. Returns > 0 if there is one; 0: there is
 * none, and s->kept is the place for the new one, or NULL; or an error with err set. */
int stage_take_keep(struct stage *s, uint64_t *havep, struct error *err);
/* Does the same before free space is checked, because an existing dataset needs none. -EAGAIN:
 * there is one, but it cannot be used, and the caller must undo this attempt. */
int stage_take_keep_first(struct stage *s, struct error *err);
