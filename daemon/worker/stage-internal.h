/*
 * stage-internal: what worker-stage.c, stage-make.c and stage-keep.c share. Nobody else includes
 * it.
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
	struct keep_use *kept; /* where it is to stay, or has; NULL: it goes with the job */
	bool keep_is_full;     /* that in memory */
	struct job_copy *copy; /* where all nodes of the job use one; else NULL */
	char *list;
	char *reserved_in; /* a tier; NULL: nothing is */
	uint64_t reserved_bytes, reserved_files;
};

static inline bool stage_is_in_memory(const struct stage *s)
{
	return !strcmp(s->plan.tier, PLAN_TIER_MEMORY);
}

/* Sets s->plan from what is known. A guess is replaced by what is so, once it is known what for. */
int stage_plan(struct stage *s, struct error *err);

/* What was granted stays granted: who asks again for the same tier asks for what is missing.
 * -ENOSPC: *havep is what there is. */
int stage_claim(struct stage *s, uint64_t bytes, uint64_t files, uint64_t *havep,
		struct error *err);

/* Does what the plan says, in s->target. */
int stage_make(struct stage *s, struct error *err);

/* The copy that another node of the job has made counts as this one's: > 0. 0: it is to be made
 * here. */
int stage_take_job_copy(struct stage *s, struct error *err);
/* What an earlier job of the user's has left counts as this one's: > 0. 0: there is nothing, and
 * s->kept is where it is to stay. */
int stage_take_keep(struct stage *s, uint64_t *havep, struct error *err);
/* The same before anybody asks how much room is left: what is there already needs none. -EAGAIN: it
 * can't be had, and the attempt is to be forgotten. */
int stage_take_keep_first(struct stage *s, struct error *err);
